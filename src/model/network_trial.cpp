#include "bespoke/model/network_trial.h"

#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/model/guidance.h"
#include "bespoke/tensor/noise.h"

namespace bespoke {

using namespace detail;

namespace {

// Numbers that are drawn without touching LibTorch's own generator.
torch::Tensor drawn(int64_t count, const std::vector<int64_t>& shape) {
  constexpr uint64_t kSeed = 0x747269616c;
  return normal_noise(kSeed, 0, count, shape).to(torch::kFloat);
}

// The largest difference of two outputs, relative to the second.
double difference_of(const torch::Tensor& one, const torch::Tensor& other) {
  constexpr double kLeast = 1e-30;
  return (one - other).abs().max().item<double>() / (other.abs().max().item<double>() + kLeast);
}

}  // namespace

Conditions made_up_conditions(const ModelCard& card, int64_t count) {
  Conditions conditions;
  for (const auto& condition : card.conditions) {
    if (!condition.is_tensor()) {
      conditions[condition.name] = torch::arange(count, torch::kLong).remainder(condition.classes);
    } else if (condition.integer) {
      std::vector<int64_t> shape = condition.shape;
      shape.insert(shape.begin(), count);
      conditions[condition.name] = torch::zeros(shape, torch::kLong);
    } else {
      conditions[condition.name] = drawn(count, condition.shape);
    }
  }
  return conditions;
}

double batch_difference(const Model& model, const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions) {
  const torch::NoGradGuard no_grad;
  const auto first_of = [&](int64_t count) {
    return model.predict(x.slice(0, 0, count), t.slice(0, 0, count), slice(conditions, 0, count))
        .slice(0, 0, 1)
        .to(torch::kCPU, torch::kDouble);
  };
  const torch::Tensor together = first_of(x.size(0)), alone = first_of(1);
  return difference_of(together, alone);
}

double repeat_difference(const Model& model, const torch::Tensor& x, const torch::Tensor& t,
                         const Conditions& conditions) {
  const torch::NoGradGuard no_grad;
  const auto call = [&] { return model.predict(x, t, conditions).to(torch::kCPU, torch::kDouble); };
  const torch::Tensor first = call();
  return difference_of(call(), first);
}

NetworkTrialResult try_network(const Model& model, const ModelCard& card, torch::Device device) {
  constexpr int64_t kCount = 2;
  const auto state = model.dtype() == torch::kDouble ? torch::kDouble : torch::kFloat;
  const torch::Tensor x = drawn(kCount, card.sample_shape).to(device, state);
  const torch::Tensor t = torch::full({1}, 0.5, torch::kDouble).expand({kCount});
  const Conditions conditions = conditions_on(made_up_conditions(card, kCount), device);
  return {batch_difference(model, x, t, conditions), repeat_difference(model, x, t, conditions)};
}

void refuse_unless_it_repeats(const std::string& name, double repeat_difference) {
  if (!(repeat_difference > kMostDifference)) return;
  throw bad_input(
      "{}: the network answers the same call differently, by {:.2g} of its size; export it in eval "
      "mode, without dropout or noise of its own",
      name, repeat_difference);
}

}  // namespace bespoke
