#include "gpu_bench.h"

#include <ATen/Context.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include "bespoke/base/text.h"
#include "bespoke/model/call_graphs.h"
#include "bespoke/model/network.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/on_outputs.h"
#include "bespoke/sample/repeated_sampler.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/noise.h"
#include "targets.h"

namespace bespoke::bench {

namespace {

constexpr int kSteps = 8, kWarmUps = 20;

// From noise on the device to samples on the CPU, which waits for them.
using Draw = std::function<torch::Tensor()>;

double seconds_of(const Draw& draw) {
  torch::cuda::synchronize();
  const auto start = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(draw());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string embedded(const std::string& name) {
  return BESPOKE_SOURCE_DIR "/models/" + name + ".json";
}

// A network with ten classes, and a batch for it.
struct Problem {
  Problem(const std::string& path, int64_t batch)
      : card(read_model_card(path)),
        noise(normal_noise(1, 0, batch, card.sample_shape).to(device, torch::kFloat)),
        classes((torch::arange(batch) % 10).to(device)) {}

  const torch::Device device = torch::Device(torch::kCUDA, 0);
  ModelCard card;
  torch::Tensor noise, classes;
};

// Euler steps by the library.
Draw by_library(const Problem& problem, torch::ScalarType dtype = torch::kFloat) {
  NetworkOptions options;
  options.device = problem.device;
  options.dtype = dtype;
  const ModelPtr model = load_model(problem.card, options);
  SolverRequest request;
  request.nfe = kSteps;
  request.schedule = problem.card.schedule;
  const SolverOnField run = on_outputs(make_solver("euler", request), model);
  const auto sampler = std::make_shared<RepeatedSampler>(run.solver, *run.field, problem.device);
  return [run, sampler, problem] {
    return sampler->sample(problem.noise, {{"y", problem.classes}}).to(torch::kCPU);
  };
}

// As many calls of the bare network, each on what the last returned, so that none overlaps.
torch::Tensor bare_calls(torch::jit::Module network, const std::vector<torch::Tensor>& given) {
  torch::Tensor x = given[0];
  for (int i = 0; i < kSteps; ++i) {
    const torch::Tensor t = torch::full_like(given[1], static_cast<double>(i) / kSteps);
    x = x + network.forward({x, t, given[2]}).toTensor() / kSteps;
  }
  return x;
}

struct Bare {
  Draw plain, as_one_graph;
};

Bare bare(const Problem& problem) {
  auto network = torch::jit::load(problem.card.weights.string(), problem.device);
  network.eval();
  network.to(torch::kFloat);
  const std::vector<torch::Tensor> given = {
      problem.noise, torch::zeros({problem.noise.size(0)}, problem.noise.options()),
      problem.classes};
  const Draw plain = [network, given] { return bare_calls(network, given).to(torch::kCPU); };
  for (int i = 0; i < kWarmUps; ++i) plain();
  const auto call = [network](const std::vector<torch::Tensor>& copies) {
    return bare_calls(network, copies);
  };
  const std::shared_ptr<RecordedCall> recorded = cuda_graph_recorder()(given, call);
  return {plain, [recorded, given] { return recorded->replay(given).to(torch::kCPU); }};
}

// Medians of runs by turns: whatever slows the GPU slows all three.
void gpu_sampling(benchmark::State& state, const std::string& name) {
  const torch::NoGradGuard no_grad;
  const int64_t batch = state.range(0);
  const Problem problem(embedded(name), batch);
  const Draw ours = by_library(problem);
  const Bare theirs = bare(problem);
  for (int i = 0; i < kWarmUps; ++i) ours();
  std::vector<double> library, plain, graph;
  for (auto unused : state) {
    plain.push_back(seconds_of(theirs.plain));
    graph.push_back(seconds_of(theirs.as_one_graph));
    library.push_back(seconds_of(ours));
    state.SetIterationTime(library.back());
  }
  state.counters["bare_ms"] = 1e3 * median(plain);
  state.counters["graph_ms"] = 1e3 * median(graph);
  state.counters["library_ms"] = 1e3 * median(library);
  const bool small = batch < 256;
  record({fmt::format("{} steps of {}, batch {}: time to {}", kSteps, name, batch,
                      small ? "the bare calls as one CUDA graph" : "the bare calls"),
          Bound::at_most, small ? 105.0 : 102.0},
         median(library) / median(small ? graph : plain));
}

// The model's own samples in fp32 from noise on the device, as bench/gpu.py has torchdiffeq do it.
void gpu_reference(benchmark::State& state) {
  constexpr int64_t kSamples = 2048, kBatch = 256;
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  const Problem problem(embedded("cifar10-fm-ot"), kSamples);
  NetworkOptions options;
  options.device = problem.device;
  const ModelPtr model = load_model(problem.card, options);
  const auto draw = [&](int64_t count) {
    Batching batching;
    batching.batch = kBatch;
    return reference_in_batches(model, problem.noise.slice(0, 0, count),
                                {{"y", problem.classes.slice(0, 0, count)}}, {1e-5, 1e-5}, batching)
        .x;
  };
  draw(kBatch);
  for (auto unused : state) state.SetIterationTime(seconds_of([&] { return draw(kSamples); }));
  at::globalContext().setAllowTF32CuBLAS(true);
  at::globalContext().setAllowTF32CuDNN(true);
}

// Several cards of one network by turns, as bench/compiled.py has them compared: medians, as
// counters named by their place in the list.
void gpu_cards(benchmark::State& state, const std::vector<std::string>& cards,
               torch::ScalarType dtype) {
  const torch::NoGradGuard no_grad;
  std::vector<Draw> draws;
  for (const std::string& card : cards) {
    draws.push_back(by_library(Problem(card, state.range(0)), dtype));
    for (int i = 0; i < kWarmUps; ++i) draws.back()();
  }
  std::vector<std::vector<double>> seconds(cards.size());
  for (auto unused : state) {
    for (size_t k = 0; k < draws.size(); ++k) seconds[k].push_back(seconds_of(draws[k]));
    state.SetIterationTime(seconds.front().back());
  }
  for (size_t k = 0; k < draws.size(); ++k) {
    state.counters[fmt::format("ms_{}", k)] = 1e3 * median(seconds[k]);
  }
}

// What the environment asks for: BESPOKE_BENCH_CARDS, with colons between, and
// BESPOKE_BENCH_DTYPE, tf32 where there is none.
void register_gpu_cards() {
  const char* cards = std::getenv("BESPOKE_BENCH_CARDS");
  if (cards == nullptr) return;
  const char* asked = std::getenv("BESPOKE_BENCH_DTYPE");
  const std::string dtype = asked == nullptr ? "tf32" : asked;
  const torch::ScalarType type = dtype == "bf16"   ? torch::kBFloat16
                                 : dtype == "fp16" ? torch::kHalf
                                                   : torch::kFloat;
  at::globalContext().setAllowTF32CuBLAS(dtype == "tf32");
  at::globalContext().setAllowTF32CuDNN(dtype == "tf32");
  benchmark::RegisterBenchmark("gpu_cards", gpu_cards, detail::split(cards, ':'), type)
      ->Arg(1)
      ->Arg(8)
      ->Arg(64)
      ->Arg(256)
      ->Iterations(60)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

void register_gpu_benchmarks() {
  if (!torch::cuda::is_available()) return;
  at::globalContext().setAllowTF32CuBLAS(true);
  at::globalContext().setAllowTF32CuDNN(true);
  for (const std::string name : {"cifar10-fm-ot", "cifar10-eps-vp"}) {
    benchmark::RegisterBenchmark(("gpu_sampling/" + name).c_str(), gpu_sampling, name)
        ->Arg(1)
        ->Arg(8)
        ->Arg(256)
        ->Iterations(100)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("gpu_reference", gpu_reference)
      ->Iterations(3)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  register_gpu_cards();
}

}  // namespace bespoke::bench
