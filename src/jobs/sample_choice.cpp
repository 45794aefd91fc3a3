#include "bespoke/jobs/sample_choice.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/io/tensor_file.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/vocabulary.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr int64_t kDefaultCount = 64;

void check_samples(const SampleChoice& choice) {
  if (choice.seed < 0) throw usage_error("--seed must not be negative, found {}", choice.seed);
  if (!choice.seeds.empty() && choice.seed != 0) {
    throw usage_error("--seed and --seeds are two ways to choose the noise; give one of them");
  }
  if (!choice.noise.empty() && (!choice.seeds.empty() || choice.seed != 0)) {
    throw usage_error("--noise brings its own noise; leave out --seed and --seeds");
  }
}

// At most `available`, all of them unless --count says otherwise.
int64_t count_of(const SampleChoice& choice, int64_t available, const std::string& source) {
  if (choice.count > available) {
    throw usage_error("--count {} is more than the {} samples of {}", choice.count, available,
                      source);
  }
  return choice.count == 0 ? available : choice.count;
}

// Those without a seed of their own are named by their number.
void number_samples(int64_t count, std::vector<std::string>& labels) {
  labels.reserve(static_cast<size_t>(count));  // more than there is memory for is refused at once
  for (int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("{:06}", i));
}

// Noise in its own precision.
using Noise = std::function<torch::Tensor(int64_t begin, int64_t end)>;

Noise noise_of_seeds(const SampleChoice& choice, const ModelPtr& model,
                     std::vector<std::string>& labels) {
  const auto seeds = parse_integer_list(choice.seeds, "--seeds");
  const int64_t count = count_of(choice, static_cast<int64_t>(seeds.size()), "--seeds");
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

Noise noise_from_file(const SampleChoice& choice, const Model& model,
                      std::vector<std::string>& labels) {
  const torch::Tensor noise = read_tensor_file(choice.noise, "noise");
  const auto shape = model.sample_shape();
  if (noise.dim() == 0 || !noise.is_floating_point() || noise.size(0) == 0 ||
      noise.sizes().slice(1) != torch::IntArrayRef(shape)) {
    throw bad_input("{}: noise of shape {} does not fit the model's samples, [count] x {}",
                    choice.noise, fmt::join(noise.sizes(), "x"), fmt::join(shape, "x"));
  }
  number_samples(count_of(choice, noise.size(0), choice.noise), labels);
  return [noise](int64_t begin, int64_t end) { return noise.slice(0, begin, end); };
}

// Each sample's own weight: like its noise, that of its seed and number. Samples whose noise comes
// from a file have none, and are counted as those of seed 0.
torch::Tensor choose_weights(const SampleChoice& choice, const GuidanceRange& range,
                             int64_t count) {
  if (choice.seeds.empty()) {
    return guidance_weights(range, static_cast<uint64_t>(choice.seed), 0, count);
  }
  const auto seeds = parse_integer_list(choice.seeds, "--seeds");
  std::vector<torch::Tensor> parts;
  for (int64_t i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(seeds[static_cast<size_t>(i)]);
    parts.push_back(guidance_weights(range, seed, 0, 1));
  }
  return torch::cat(parts);
}

// The noise, with a name for each sample.
Noise choose_noise(const SampleChoice& choice, const OpenModel& open,
                   std::vector<std::string>& labels) {
  if (!choice.noise.empty()) return noise_from_file(choice, *open.model, labels);
  if (!choice.seeds.empty()) return noise_of_seeds(choice, open.model, labels);
  const int64_t usual =
      open.utterances ? static_cast<int64_t>(open.utterances->sounds.size()) : kDefaultCount;
  number_samples(choice.count == 0 ? usual : choice.count, labels);
  return
      [model = open.model, seed = static_cast<uint64_t>(choice.seed)](int64_t begin, int64_t end) {
        return starting_noise(*model, seed, static_cast<uint64_t>(begin), end - begin);
      };
}

std::string origin(const SampleChoice& choice) {
  if (!choice.noise.empty()) return "from the noise of " + choice.noise;
  return choice.seeds.empty() ? fmt::format("of seed {}", choice.seed)
                              : fmt::format("of seeds {}", choice.seeds);
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

ChosenSamples choose_samples(const OpenModel& open, const SampleChoice& choice) {
  check_samples(choice);
  ChosenSamples chosen;
  chosen.noise = [draw = choose_noise(choice, open, chosen.labels), device = open.device,
                  type = open.state_dtype()](int64_t begin, int64_t end) {
    return draw(begin, end).to(device, type);
  };
  chosen.conditions =
      read_conditions(open.card.conditions, choice.conditions, chosen.count(), open.utterance_rows);
  chosen.prompts = prompts_of(open.card.conditions, chosen.conditions);
  if (open.guidance.range) {
    chosen.conditions[kGuidanceCondition] =
        choose_weights(choice, *open.guidance.range, chosen.count());
  }
  chosen.model = guided(open, chosen.conditions);
  chosen.title = fmt::format("{}, {} samples {}", open.title(), chosen.count(), origin(choice));
  return chosen;
}

}  // namespace bespoke
