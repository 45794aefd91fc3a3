#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <string>
#include <vector>

#include "bespoke/model/network.h"
#include "targets.h"

namespace bespoke::bench {

namespace {

// What the embedded models may cost, so that the demo takes minutes on two cores.
constexpr double kSecondsPerSample = 3e-3;

// Classes in turn; of tensors zeros, which cost what others do.
Conditions some_conditions(const ModelCard& card, int64_t batch) {
  Conditions conditions;
  for (const auto& condition : card.conditions) {
    if (!condition.is_tensor()) {
      conditions[condition.name] = torch::arange(batch).remainder(condition.classes);
      continue;
    }
    std::vector<int64_t> shape = {batch};
    shape.insert(shape.end(), condition.shape.begin(), condition.shape.end());
    conditions[condition.name] =
        torch::zeros(shape, condition.integer ? torch::kLong : torch::kFloat);
  }
  return conditions;
}

void evaluate_teacher(benchmark::State& state, const std::string& name, int64_t batch) {
  torch::NoGradGuard no_grad;
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const ModelCard card = read_model_card(BESPOKE_SOURCE_DIR "/models/" + name + ".json");
  const ModelPtr model = load_model(card);
  std::vector<int64_t> shape = {batch};
  shape.insert(shape.end(), card.sample_shape.begin(), card.sample_shape.end());
  const torch::Tensor x = torch::randn(shape);
  const torch::Tensor t = torch::full({batch}, 0.5, torch::kDouble);
  const Conditions conditions = some_conditions(card, batch);
  for (int i = 0; i < 3; ++i) model->predict(x, t, conditions);  // the interpreter optimises first
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    model->predict(x, t, conditions);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    record({fmt::format("{}: time of an evaluation against 3 ms a sample, batch {}, 1 thread", name,
                        batch),
            Bound::at_most, 100},
           seconds / static_cast<double>(batch) / kSecondsPerSample);
  }
  torch::set_num_threads(threads);
}

BENCHMARK_CAPTURE(evaluate_teacher, fm_ot, "cifar10-fm-ot", 32)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(20)
    ->UseRealTime();
BENCHMARK_CAPTURE(evaluate_teacher, eps_vp, "cifar10-eps-vp", 32)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(20)
    ->UseRealTime();
BENCHMARK_CAPTURE(evaluate_teacher, speech, "speech", 16)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(20)
    ->UseRealTime();

}  // namespace

}  // namespace bespoke::bench
