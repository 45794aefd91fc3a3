#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <string>

#include "bespoke/model/network.h"
#include "targets.h"

namespace bespoke::bench {

namespace {

// What the embedded models may cost, so that the demo takes minutes on two cores.
constexpr double kSecondsPerSample = 3e-3;
constexpr int64_t kTeacherBatch = 32;

void evaluate_teacher(benchmark::State& state, const std::string& name) {
  torch::NoGradGuard no_grad;
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const ModelPtr model =
      load_model(read_model_card(BESPOKE_SOURCE_DIR "/models/" + name + ".json"));
  const torch::Tensor x = torch::randn({kTeacherBatch, 3, 32, 32});
  const torch::Tensor t = torch::full({kTeacherBatch}, 0.5, torch::kDouble);
  const Conditions conditions = {{"y", torch::arange(kTeacherBatch).remainder(10)}};
  for (int i = 0; i < 3; ++i) model->predict(x, t, conditions);  // the interpreter optimises first
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    model->predict(x, t, conditions);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    record(
        {fmt::format("{}: time of an evaluation against 3 ms a sample, batch 32, 1 thread", name),
         Bound::at_most, 100},
        seconds / kTeacherBatch / kSecondsPerSample);
  }
  torch::set_num_threads(threads);
}

BENCHMARK_CAPTURE(evaluate_teacher, fm_ot, "cifar10-fm-ot")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(20)
    ->UseRealTime();
BENCHMARK_CAPTURE(evaluate_teacher, eps_vp, "cifar10-eps-vp")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(20)
    ->UseRealTime();

}  // namespace

}  // namespace bespoke::bench
