#include "start_options.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>

#include "bespoke/core/error.h"
#include "bespoke/core/noise.h"
#include "bespoke/core/text.h"
#include "bespoke/io/tensor_file.h"
#include "condition_options.h"

namespace bespoke {

namespace {

constexpr int64_t kDefaultCount = 64;

void check_start(const StartOptions& options) {
  if (options.count < 0) throw usage_error("--count must be at least 1, found {}", options.count);
  if (options.seed < 0) throw usage_error("--seed must not be negative, found {}", options.seed);
  if (!options.seeds.empty() && options.seed != 0) {
    throw usage_error("--seed and --seeds are two ways to choose the noise; give one of them");
  }
  if (!options.noise.empty() && (!options.seeds.empty() || options.seed != 0)) {
    throw usage_error("--noise brings its own noise; leave out --seed and --seeds");
  }
}

// At most `available`, all of them unless --count says otherwise.
int64_t count_of(const StartOptions& options, int64_t available, const std::string& source) {
  if (options.count > available) {
    throw usage_error("--count {} is more than the {} samples of {}", options.count, available,
                      source);
  }
  return options.count == 0 ? available : options.count;
}

torch::Tensor noise_of_seeds(const StartOptions& options, const Model& model,
                             std::vector<std::string>& labels) {
  const auto seeds = parse_integer_list(options.seeds, "--seeds");
  const int64_t count = count_of(options, static_cast<int64_t>(seeds.size()), "--seeds");
  std::vector<torch::Tensor> parts;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t seed = seeds[static_cast<size_t>(i)];
    parts.push_back(normal_noise(static_cast<uint64_t>(seed), 0, 1, model.sample_shape()));
    const std::string label = fmt::format("seed-{:06}", seed);
    if (std::find(labels.begin(), labels.end(), label) != labels.end()) {
      throw usage_error("--seeds has {} twice; its samples would be the same", seed);
    }
    labels.push_back(label);
  }
  return torch::cat(parts);
}

torch::Tensor noise_from_file(const StartOptions& options, const Model& model) {
  const torch::Tensor noise = read_tensor_file(options.noise, "noise");
  const auto shape = model.sample_shape();
  if (noise.dim() == 0 || !noise.is_floating_point() || noise.size(0) == 0 ||
      noise.sizes().slice(1) != torch::IntArrayRef(shape)) {
    throw bad_input("{}: noise of shape {} does not fit the model's samples, [count] x {}",
                    options.noise, fmt::join(noise.sizes(), "x"), fmt::join(shape, "x"));
  }
  return noise.slice(0, 0, count_of(options, noise.size(0), options.noise));
}

// The noise in its own precision, with a name for each sample.
torch::Tensor choose_noise(const StartOptions& options, const Model& model,
                           std::vector<std::string>& labels) {
  if (!options.noise.empty()) return noise_from_file(options, model);
  const double deviation = model.schedule()->source_std();
  if (!options.seeds.empty()) return deviation * noise_of_seeds(options, model, labels);
  return deviation * normal_noise(static_cast<uint64_t>(options.seed), 0,
                                  options.count == 0 ? kDefaultCount : options.count,
                                  model.sample_shape());
}

std::string origin(const StartOptions& options) {
  if (!options.noise.empty()) return "from the noise of " + options.noise;
  return options.seeds.empty() ? fmt::format("of seed {}", options.seed)
                               : fmt::format("of seeds {}", options.seeds);
}

}  // namespace

void StartOptions::add_to(CLI::App& command) {
  command.add_option("--cond", conditions,
                     "condition NAME=VALUE: a class, a list that repeats over the samples "
                     "(class=0-9), or a tensor (text=FILE.safetensors[:KEY] or FILE.npy), one per "
                     "sample or shared");
  command.add_option("--count", count,
                     "number of samples; default 64, or all of --seeds or --noise");
  command.add_option("--seed", seed, "sample i starts from noise (seed, i)")->capture_default_str();
  command.add_option("--seeds", seeds,
                     "a seed for each sample, such as 0-63: sample i starts from noise (seeds[i], "
                     "0)");
  command.add_option("--noise", noise,
                     "start from this .npy, or the tensor 'noise' of this .safetensors, as it is");
}

Start make_start(const OpenModel& open, const StartOptions& options) {
  check_start(options);
  Start start;
  start.noise =
      choose_noise(options, *open.model, start.labels).to(open.device, open.state_dtype());
  for (int64_t i = static_cast<int64_t>(start.labels.size()); i < start.count(); ++i) {
    start.labels.push_back(fmt::format("{:06}", i));
  }
  start.conditions = read_conditions(open.card.conditions, options.conditions, start.count());
  start.model = guided(open, start.conditions);
  start.title = fmt::format("{}, {} samples {}", open.title(), start.count(), origin(options));
  return start;
}

}  // namespace bespoke
