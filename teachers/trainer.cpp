#include "teachers/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/text.h"
#include "bespoke/io/safetensors.h"

namespace bespoke {

using namespace detail;

namespace {

double learning_rate_factor(const TrainOptions& options, int64_t step) {
  const auto done = static_cast<double>(step), warmup = static_cast<double>(options.warmup);
  if (step < options.warmup) return (done + 1) / warmup;
  const double rest = static_cast<double>(options.steps) - warmup;
  const double fraction = (done - warmup) / rest;
  if (options.decay == Decay::linear) return 1 - fraction;
  return 0.5 * (1 + std::cos(M_PI * fraction));
}

// A different seed for every step of every run.
uint64_t step_seed(uint64_t seed, int64_t step) {
  return seed * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(step);
}

void refuse_divergence(double loss, int64_t step) {
  if (std::isfinite(loss)) return;
  throw Error(
      ErrorKind::diverged,
      fmt::format("the loss is not finite at step {}; begin anew with a lower learning rate",
                  step));
}

// Where steps are slow, every few seconds; and at once when the user wants to stop.
bool due(int64_t step, const TrainOptions& options,
         std::chrono::steady_clock::time_point reported) {
  constexpr std::chrono::seconds kPatience(2);
  return step % kReportEvery == 0 || step == options.steps || interrupt_requested() ||
         (options.report_at > 0 && step % options.report_at == 0) ||
         std::chrono::steady_clock::now() - reported > kPatience;
}

}  // namespace

void train(torch::nn::Module& network, const Loss& loss, const Examples& examples,
           const TrainOptions& options, AdamWState& state,
           const std::function<bool(const TrainProgress&)>& on_progress) {
  network.train();
  FlatWeights flat(network, options.device, options.dtype);
  flat.values.copy_(state.weights);
  torch::Tensor sum = torch::zeros({}, torch::TensorOptions(options.device));
  int64_t since = state.step;
  auto reported = std::chrono::steady_clock::now();
  while (state.step < options.steps) {
    torch::manual_seed(step_seed(options.seed, state.step));
    flat.gradients.zero_();
    const torch::Tensor value = loss(examples.draw(options.batch, options.augment));
    value.backward();
    adamw_step(state, flat.gradients, options.adamw, learning_rate_factor(options, state.step));
    flat.values.copy_(state.weights);
    sum += value.detach();
    if (!due(state.step, options, reported)) continue;
    const double mean = sum.item<double>() / static_cast<double>(state.step - since);
    refuse_divergence(mean, state.step);
    since = state.step;
    reported = std::chrono::steady_clock::now();
    sum.zero_();
    if (!on_progress({state.step, mean})) return;
  }
}

void write_checkpoint(const std::filesystem::path& path, const AdamWState& state) {
  const auto kept = [](const torch::Tensor& x) { return x.to(torch::kCPU); };
  write_safetensors(path, {{{"weights", kept(state.weights)},
                            {"average", kept(state.average)},
                            {"first_moment", kept(state.first_moment)},
                            {"second_moment", kept(state.second_moment)}},
                           {{"step", std::to_string(state.step)}}});
}

AdamWState read_checkpoint(const std::filesystem::path& path, torch::Device device) {
  const TensorFile file = read_safetensors(path);
  const auto found = [&](const std::string& name) {
    const auto tensor = file.tensors.find(name);
    if (tensor == file.tensors.end()) {
      throw bad_input("{} is not a checkpoint of a training: it has no {}; begin anew",
                      path.string(), name);
    }
    return tensor->second.to(device);
  };
  const auto step = file.metadata.find("step");
  if (step == file.metadata.end()) {
    throw bad_input("{} does not say at which step it was taken; begin anew", path.string());
  }
  return {found("weights"), found("average"), found("first_moment"), found("second_moment"),
          parse_integer(step->second, "the step in " + path.string())};
}

double accuracy(Classifier& network, const Examples& examples, int64_t batch) {
  torch::NoGradGuard no_grad;
  network.eval();
  int64_t right = 0;
  for (int64_t begin = 0; begin < examples.count(); begin += batch) {
    const Batch part = examples.slice(begin, std::min(examples.count(), begin + batch));
    right += network.forward(part.samples).argmax(1).eq(part.labels).sum().item<int64_t>();
  }
  return static_cast<double>(right) / static_cast<double>(examples.count());
}

}  // namespace bespoke
