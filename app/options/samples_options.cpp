#include "options/samples_options.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/io/tensor_file.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/vocabulary.h"
#include "options/condition_options.h"
#include "options/number_checks.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr int64_t kDefaultCount = 64;

void check_samples(const SamplesOptions& options) {
  if (options.seed < 0) throw usage_error("--seed must not be negative, found {}", options.seed);
  if (!options.seeds.empty() && options.seed != 0) {
    throw usage_error("--seed and --seeds are two ways to choose the noise; give one of them");
  }
  if (!options.noise.empty() && (!options.seeds.empty() || options.seed != 0)) {
    throw usage_error("--noise brings its own noise; leave out --seed and --seeds");
  }
}

// At most `available`, all of them unless --count says otherwise.
int64_t count_of(const SamplesOptions& options, int64_t available, const std::string& source) {
  if (options.count > available) {
    throw usage_error("--count {} is more than the {} samples of {}", options.count, available,
                      source);
  }
  return options.count == 0 ? available : options.count;
}

// Those without a seed of their own are named by their number.
void number_samples(int64_t count, std::vector<std::string>& labels) {
  for (int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("{:06}", i));
}

// Noise in its own precision.
using Noise = std::function<torch::Tensor(int64_t begin, int64_t end)>;

Noise noise_of_seeds(const SamplesOptions& options, const ModelPtr& model,
                     std::vector<std::string>& labels) {
  const auto seeds = parse_integer_list(options.seeds, "--seeds");
  const int64_t count = count_of(options, static_cast<int64_t>(seeds.size()), "--seeds");
  std::set<int64_t> seen;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t seed = seeds[static_cast<size_t>(i)];
    if (seed < 0) throw usage_error("--seeds must not be negative, found {}", seed);
    if (!seen.insert(seed).second) {
      throw usage_error("--seeds has {} twice; its samples would be the same", seed);
    }
    labels.push_back(fmt::format("seed-{:06}", seed));
  }
  return [=](int64_t begin, int64_t end) {
    std::vector<torch::Tensor> parts;
    for (int64_t i = begin; i < end; ++i) {
      const auto seed = static_cast<uint64_t>(seeds[static_cast<size_t>(i)]);
      parts.push_back(starting_noise(*model, seed, 0, 1));
    }
    return torch::cat(parts);
  };
}

Noise noise_from_file(const SamplesOptions& options, const Model& model,
                      std::vector<std::string>& labels) {
  const torch::Tensor noise = read_tensor_file(options.noise, "noise");
  const auto shape = model.sample_shape();
  if (noise.dim() == 0 || !noise.is_floating_point() || noise.size(0) == 0 ||
      noise.sizes().slice(1) != torch::IntArrayRef(shape)) {
    throw bad_input("{}: noise of shape {} does not fit the model's samples, [count] x {}",
                    options.noise, fmt::join(noise.sizes(), "x"), fmt::join(shape, "x"));
  }
  number_samples(count_of(options, noise.size(0), options.noise), labels);
  return [noise](int64_t begin, int64_t end) { return noise.slice(0, begin, end); };
}

// Each sample's own weight: like its noise, that of its seed and number. Samples whose noise comes
// from a file have none, and are counted as those of seed 0.
torch::Tensor choose_weights(const SamplesOptions& options, const GuidanceRange& range,
                             int64_t count) {
  if (options.seeds.empty()) {
    return guidance_weights(range, static_cast<uint64_t>(options.seed), 0, count);
  }
  const auto seeds = parse_integer_list(options.seeds, "--seeds");
  std::vector<torch::Tensor> parts;
  for (int64_t i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(seeds[static_cast<size_t>(i)]);
    parts.push_back(guidance_weights(range, seed, 0, 1));
  }
  return torch::cat(parts);
}

// The noise, with a name for each sample.
Noise choose_noise(const SamplesOptions& options, const OpenModel& open,
                   std::vector<std::string>& labels) {
  if (!options.noise.empty()) return noise_from_file(options, *open.model, labels);
  if (!options.seeds.empty()) return noise_of_seeds(options, open.model, labels);
  const int64_t usual =
      open.utterances ? static_cast<int64_t>(open.utterances->sounds.size()) : kDefaultCount;
  number_samples(options.count == 0 ? usual : options.count, labels);
  return
      [model = open.model, seed = static_cast<uint64_t>(options.seed)](int64_t begin, int64_t end) {
        return starting_noise(*model, seed, static_cast<uint64_t>(begin), end - begin);
      };
}

std::string origin(const SamplesOptions& options) {
  if (!options.noise.empty()) return "from the noise of " + options.noise;
  return options.seeds.empty() ? fmt::format("of seed {}", options.seed)
                               : fmt::format("of seeds {}", options.seeds);
}

std::vector<std::string> prompts_of(const std::vector<ConditionCard>& known,
                                    const Conditions& conditions) {
  std::vector<std::string> prompts;
  for (const auto& condition : known) {
    if (!condition.is_text()) continue;
    const Vocabulary vocabulary(condition.vocabulary);
    for (const auto& row : conditions.at(condition.name).unbind(0)) {
      const torch::Tensor tokens = row.to(torch::kCPU, torch::kLong).contiguous();
      const auto* first = tokens.data_ptr<int64_t>();
      prompts.push_back(vocabulary.caption({first, first + tokens.numel()}));
    }
    break;
  }
  return prompts;
}

}  // namespace

void SamplesOptions::add_to(CLI::App& command) {
  add_condition_options(
      command, conditions,
      "condition NAME=VALUE: a class, a list that repeats over the samples "
      "(class=0-9), or a tensor (text=FILE.safetensors[:KEY] or FILE.npy), one per "
      "sample or shared");
  command
      .add_option("--count", count,
                  "number of samples; default 64, or all of --seeds, --noise or --utterances")
      ->check(positive_number());
  command.add_option("--seed", seed, "sample i starts from noise (seed, i)")->capture_default_str();
  command.add_option("--seeds", seeds,
                     "a seed for each sample, such as 0-63: sample i starts from noise (seeds[i], "
                     "0)");
  command.add_option("--noise", noise,
                     "start from this .npy, or the tensor 'noise' of this .safetensors, as it is");
}

ChosenSamples choose_samples(const OpenModel& open, const SamplesOptions& options) {
  check_samples(options);
  ChosenSamples chosen;
  chosen.noise = [draw = choose_noise(options, open, chosen.labels), device = open.device,
                  type = open.state_dtype()](int64_t begin, int64_t end) {
    return draw(begin, end).to(device, type);
  };
  chosen.conditions = read_conditions(open.card.conditions, options.conditions, chosen.count(),
                                      open.utterance_rows);
  chosen.prompts = prompts_of(open.card.conditions, chosen.conditions);
  if (open.guidance.range) {
    chosen.conditions[kGuidanceCondition] =
        choose_weights(options, *open.guidance.range, chosen.count());
  }
  chosen.model = guided(open, chosen.conditions);
  chosen.title = fmt::format("{}, {} samples {}", open.title(), chosen.count(), origin(options));
  return chosen;
}

}  // namespace bespoke
