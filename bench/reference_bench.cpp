#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "bespoke/model/fields.h"
#include "bespoke/model/mixture.h"
#include "bespoke/sample/reference.h"
#include "bespoke/tensor/noise.h"
#include "targets.h"

namespace bespoke::bench {

namespace {

// The adaptive Dormand-Prince 5(4) of a textbook (Hairer, Norsett and Wanner, II.4 and II.5), one
// trajectory [1, ...] at a time: what `reference` is measured against.
class TextbookRk45 {
 public:
  TextbookRk45(const Field& field, double tolerance) : field_(field), tolerance_(tolerance) {}

  torch::Tensor integrate(torch::Tensor x, double t, double end) {
    std::array<torch::Tensor, 7> k;
    k[0] = slope(x, t);
    double h = first_step(x, k[0], t, end);
    bool rejected = false;
    while (t < end) {
      const bool last = t + h >= end;
      if (last) h = end - t;
      const torch::Tensor next = stages(x, t, h, k);
      const double error = norm(h * error_estimate(k), x, next);
      double factor = std::clamp(0.9 * std::pow(error, -0.2), 0.2, 10.0);
      if (rejected || error > 1) factor = std::min(factor, 1.0);
      rejected = error > 1;
      if (!rejected) {
        t = last ? end : t + h;
        x = next;
        k[0] = k[6];
      }
      h *= factor;
    }
    return x;
  }

  int64_t evaluations() const { return evaluations_; }

 private:
  torch::Tensor slope(const torch::Tensor& x, double t) {
    ++evaluations_;
    return field_.velocity(x, torch::full({1}, t, torch::kDouble), {});
  }

  double norm(const torch::Tensor& e, const torch::Tensor& left, const torch::Tensor& right) const {
    const auto scale = tolerance_ + tolerance_ * torch::maximum(left.abs(), right.abs());
    return (e / scale).pow(2).mean().sqrt().item<double>();
  }

  double first_step(const torch::Tensor& x, const torch::Tensor& u, double t, double end) {
    const double d0 = norm(x, x, x), d1 = norm(u, x, x);
    const double h0 = std::min(end - t, d0 < 1e-5 || d1 < 1e-5 ? 1e-6 : 0.01 * d0 / d1);
    const double d2 = norm(slope(x + h0 * u, t + h0) - u, x, x) / h0;
    const double d = std::max(d1, d2);
    const double h1 = d <= 1e-15 ? std::max(1e-6, 1e-3 * h0) : std::pow(0.01 / d, 0.2);
    return std::min({100 * h0, h1, end - t});
  }

  // Fills k[1] ... k[6] and returns the new state, at which k[6] is taken.
  torch::Tensor stages(const torch::Tensor& x, double t, double h,
                       std::array<torch::Tensor, 7>& k) {
    k[1] = slope(x + h * (1. / 5 * k[0]), t + h / 5);
    k[2] = slope(x + h * (3. / 40 * k[0] + 9. / 40 * k[1]), t + 3 * h / 10);
    k[3] = slope(x + h * (44. / 45 * k[0] - 56. / 15 * k[1] + 32. / 9 * k[2]), t + 4 * h / 5);
    k[4] = slope(x + h * (19372. / 6561 * k[0] - 25360. / 2187 * k[1] + 64448. / 6561 * k[2] -
                          212. / 729 * k[3]),
                 t + 8 * h / 9);
    k[5] = slope(x + h * (9017. / 3168 * k[0] - 355. / 33 * k[1] + 46732. / 5247 * k[2] +
                          49. / 176 * k[3] - 5103. / 18656 * k[4]),
                 t + h);
    const torch::Tensor next = x + h * (35. / 384 * k[0] + 500. / 1113 * k[2] + 125. / 192 * k[3] -
                                        2187. / 6784 * k[4] + 11. / 84 * k[5]);
    k[6] = slope(next, t + h);
    return next;
  }

  static torch::Tensor error_estimate(const std::array<torch::Tensor, 7>& k) {
    return 71. / 57600 * k[0] - 71. / 16695 * k[2] + 71. / 1920 * k[3] - 17253. / 339200 * k[4] +
           22. / 525 * k[5] - 1. / 40 * k[6];
  }

  const Field& field_;
  double tolerance_;
  int64_t evaluations_ = 0;
};

// What the textbook makes of the same samples, in the coordinates in which `reference` runs.
struct TextbookResult {
  torch::Tensor x;
  double evaluations;  // per sample
};

TextbookResult run_textbook(const ModelPtr& model, const torch::Tensor& noise, double tolerance) {
  const torch::NoGradGuard no_grad;
  const SchedulePoint first = model->schedule()->at(0), last = model->schedule()->at(1);
  const double scale = first.alpha + first.sigma;
  const RescheduledField field(model, fm_ot_schedule());
  TextbookRk45 textbook(field, tolerance);
  std::vector<torch::Tensor> x;
  for (const torch::Tensor& start : (noise / scale).split(1)) {
    x.push_back(textbook.integrate(start, first.alpha / scale, 1));
  }
  return {(last.alpha + last.sigma) * torch::cat(x),
          static_cast<double>(textbook.evaluations()) / static_cast<double>(x.size())};
}

// Evaluations per sample on the analytic mixture. The errors show that none are saved by being
// less accurate.
void reference_evaluations(benchmark::State& state, const SchedulePtr& schedule,
                           Prediction prediction, double tolerance) {
  constexpr int64_t kSamples = 32;
  constexpr int kTrueSteps = 200;
  const ModelPtr model = mixture_model(random_mixture({}), schedule, prediction);
  const auto noise = schedule->source_std() * normal_noise(1, 0, kSamples, model->sample_shape());
  ReferenceOptions options;
  options.tolerances = {tolerance, tolerance};
  ReferenceResult result;
  for (auto unused : state) result = reference(model, noise, {}, options);

  const torch::Tensor truth = reference_fixed(model, noise, {}, kTrueSteps);
  const auto error = [&](const torch::Tensor& x) {
    return (x - truth).pow(2).mean().sqrt().item<double>();
  };
  const TextbookResult textbook = run_textbook(model, noise, tolerance);
  const double evaluations = result.evaluations.to(torch::kDouble).mean().item<double>();
  const double ratio = evaluations / textbook.evaluations;
  state.counters["evaluations"] = evaluations;
  state.counters["textbook"] = textbook.evaluations;
  state.counters["ratio"] = ratio;
  state.counters["error"] = error(result.x);
  state.counters["textbook_error"] = error(textbook.x);
  record({fmt::format("reference evaluations of textbook RK45, {} {}, {:g}", schedule->name(),
                      to_string(prediction), tolerance),
          Bound::at_most, 105},
         ratio);
}

#define REFERENCE_BENCHMARK(name, ...)                        \
  BENCHMARK_CAPTURE(reference_evaluations, name, __VA_ARGS__) \
      ->Iterations(1)                                         \
      ->Unit(benchmark::kMillisecond)
REFERENCE_BENCHMARK(fm_ot_velocity_1e5, fm_ot_schedule(), Prediction::velocity, 1e-5);
REFERENCE_BENCHMARK(fm_ot_velocity_1e6, fm_ot_schedule(), Prediction::velocity, 1e-6);
REFERENCE_BENCHMARK(vp_noise_1e5, vp_schedule(), Prediction::noise, 1e-5);
REFERENCE_BENCHMARK(vp_noise_1e6, vp_schedule(), Prediction::noise, 1e-6);

}  // namespace

}  // namespace bespoke::bench
