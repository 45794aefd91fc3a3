#include "bespoke/jobs/network_calls.h"

#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/model/network_trial.h"

namespace bespoke {

namespace {

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

template <class Work>
double seconds_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

bool is_differentiable(const Model& model, const torch::Tensor& x, const torch::Tensor& t,
                       const Conditions& conditions) {
  const auto output = model.predict(x, t, conditions);
  if (!output.requires_grad()) return false;
  return torch::autograd::grad({output.sum()}, {x})[0].isfinite().all().item<bool>();
}

// The classes to call: all of them, or as many as are enough to see a table that is too small.
std::vector<int64_t> classes_to_call(const ConditionCard& condition) {
  constexpr int64_t kMost = 256;
  std::vector<int64_t> classes;
  const int64_t count = std::min(condition.classes, kMost);
  for (int64_t i = 0; i < count; ++i) {
    classes.push_back(count == 1 ? 0 : i * (condition.classes - 1) / (count - 1));
  }
  if (condition.null >= condition.classes) classes.push_back(condition.null);
  return classes;
}

}  // namespace

CallReport call_network(const OpenModel& open, const Conditions& conditions, int64_t count) {
  std::vector<int64_t> shape = open.card.sample_shape;
  shape.insert(shape.begin(), count);
  const auto x = torch::randn(shape, torch::kFloat).to(open.device, open.state_dtype());
  const auto t = torch::full({1}, 0.5, torch::kDouble).expand({count});
  const auto call = [&] {
    return open.model->predict(x, t, conditions).to(torch::kCPU);  // waits for the device too
  };
  CallReport report{};
  {
    const torch::NoGradGuard no_grad;
    const torch::Tensor output = call();  // the first call also prepares the network
    report.seconds = seconds_of(call) / static_cast<double>(count);
    report.finite = output.isfinite().all().item<bool>();
  }
  report.repeat_difference = repeat_difference(*open.model, x, t, conditions);
  report.batch_difference = batch_difference(*open.model, x, t, conditions);
  const auto input = x.slice(0, 0, 1).clone().requires_grad_(true);
  report.differentiable =
      has_gradients(*open.network) &&
      is_differentiable(*open.model, input, t.slice(0, 0, 1), slice(conditions, 0, 1));
  report.megabytes = peak_megabytes();
  return report;
}

void call_every_class(const OpenModel& open, const Conditions& conditions, int64_t batch) {
  const torch::NoGradGuard no_grad;
  std::vector<int64_t> shape = open.card.sample_shape;
  shape.insert(shape.begin(), batch);
  const auto noise = torch::randn(shape, torch::kFloat).to(open.device, open.state_dtype());
  for (const auto& condition : open.card.conditions) {
    if (condition.is_tensor()) continue;
    const auto classes = classes_to_call(condition);
    for (size_t begin = 0; begin < classes.size(); begin += static_cast<size_t>(batch)) {
      const auto count =
          std::min(batch, static_cast<int64_t>(classes.size()) - static_cast<int64_t>(begin));
      Conditions given = slice(conditions, 0, count);
      given[condition.name] = torch::tensor(
          std::vector<int64_t>(classes.begin() + static_cast<std::ptrdiff_t>(begin),
                               classes.begin() + static_cast<std::ptrdiff_t>(begin) + count),
          torch::kLong);
      const auto t = torch::full({1}, 0.5, torch::kDouble).expand({count});
      const auto output = open.model->predict(noise.slice(0, 0, count), t, given);
      const auto finite = output.flatten(1).isfinite().all(1).to(torch::kCPU);
      for (int64_t i = 0; i < count; ++i) {
        if (finite[i].item<bool>()) continue;
        throw bad_input("{}: the network returns NaN or infinity for {} = {}", open.name,
                        condition.name, classes[begin + static_cast<size_t>(i)]);
      }
    }
  }
}

}  // namespace bespoke
