#include "bespoke/sample/reference.h"

#include <torch/torch.h>

#include <array>
#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"

namespace bespoke {

namespace {

// Modified midpoint over [t, next] with an even number of substeps (Gragg). Its error is a series
// in the squared step, which is what extrapolation removes.
torch::Tensor modified_midpoint(const Field& field, const torch::Tensor& x,
                                const Conditions& conditions, double t, double next_time,
                                int substeps) {
  const double step = (next_time - t) / substeps;
  const auto slope = [&](const torch::Tensor& state, double time) {
    const auto times = torch::full({1}, time, torch::kDouble).expand({x.size(0)});
    return field.velocity(state, times, conditions).to(torch::kDouble);
  };
  torch::Tensor previous = x, current = x + step * slope(x, t);
  for (int k = 1; k < substeps; ++k) {
    const torch::Tensor next = previous + 2 * step * slope(current, t + k * step);
    previous = current;
    current = next;
  }
  return 0.5 * (current + previous + step * slope(current, next_time));
}

// Aitken-Neville in h^2 over 2, 4, 6 and 8 substeps: order 8.
torch::Tensor extrapolated_step(const Field& field, const torch::Tensor& x,
                                const Conditions& conditions, double t, double next_time) {
  constexpr std::array<int, 4> kSubsteps = {2, 4, 6, 8};
  std::array<torch::Tensor, kSubsteps.size()> column;
  for (size_t j = 0; j < kSubsteps.size(); ++j) {
    column[j] = modified_midpoint(field, x, conditions, t, next_time, kSubsteps[j]);
    for (size_t k = j; k-- > 0;) {
      const double ratio = static_cast<double>(kSubsteps[j]) / kSubsteps[k];
      column[k] = column[k + 1] + (column[k + 1] - column[k]) / (ratio * ratio - 1);
    }
  }
  return column[0];
}

// One first-order step from `from` to `to` with the data prediction the model makes at `at`.
torch::Tensor bridge(const Model& model, const torch::Tensor& x, const Conditions& conditions,
                     double from, double to, double at) {
  const SchedulePtr schedule = model.schedule();
  const auto t = torch::full({x.size(0)}, at, torch::kDouble);
  const Affine<double> weights = data_from(model.prediction(), schedule->at(at));
  const auto output = model.predict(x, t, conditions).to(torch::kDouble);
  const auto data = weights.state * x + weights.output * output;
  const SchedulePoint here = schedule->at(from), there = schedule->at(to);
  const double ratio = there.sigma / here.sigma;
  return ratio * x + (there.alpha - here.alpha * ratio) * data;
}

// Integrates a model over [start, end] with `integrator(field, x, from, to)`, in coordinates in
// which it is smooth, bridging singular ends. Returns the evaluations the bridges cost.
template <class Integrator>
int64_t integrate_model(const ModelPtr& model, torch::Tensor& x, const Conditions& conditions,
                        double start, double end, Integrator integrator) {
  const SchedulePtr schedule = model->schedule();
  const Prediction prediction = model->prediction();
  const double margin = safe_margin(*model);
  const double first = safe_time(prediction, *schedule, start, margin);
  const double last = safe_time(prediction, *schedule, end, margin);
  int64_t bridges = 0;
  if (first > start) {
    x = bridge(*model, x, conditions, start, first, first);
    ++bridges;
  }
  const SchedulePoint p0 = schedule->at(first), p1 = schedule->at(last);
  const double s0 = p0.alpha + p0.sigma, s1 = p1.alpha + p1.sigma;
  x = s1 *
      integrator(RescheduledField(model, fm_ot_schedule()), x / s0, p0.alpha / s0, p1.alpha / s1);
  if (last < end) {
    x = bridge(*model, x, conditions, last, end, last);
    ++bridges;
  }
  return bridges;
}

void check_span(double start, double end) {
  if (!(start >= 0 && start < end && end <= 1)) {
    throw usage_error("the reference runs over 0 <= start < end <= 1, found {} to {}", start, end);
  }
}

}  // namespace

torch::Tensor integrate_fixed(const Field& field, const torch::Tensor& x0,
                              const Conditions& conditions, double start, double end, int steps) {
  const torch::NoGradGuard no_grad;
  torch::Tensor x = x0.to(torch::kDouble);
  const double h = (end - start) / steps;
  for (int i = 0; i < steps; ++i) {
    const double next_time = i + 1 == steps ? end : start + (i + 1) * h;
    x = extrapolated_step(field, x, conditions, start + i * h, next_time);
  }
  return x;
}

ReferenceResult reference(const ModelPtr& model, const torch::Tensor& x0,
                          const Conditions& conditions, const ReferenceOptions& options) {
  check_span(options.start, options.end);
  const torch::NoGradGuard no_grad;
  torch::Tensor x = x0.to(torch::kDouble), evaluations;
  const auto adaptive = [&](const Field& field, const torch::Tensor& from_x, double from,
                            double to) {
    ReferenceOptions inner = options;
    inner.start = from;
    inner.end = to;
    const ReferenceResult result = integrate_adaptive(field, from_x, conditions, inner);
    evaluations = result.evaluations;
    return result.x;
  };
  const int64_t bridges =
      integrate_model(model, x, conditions, options.start, options.end, adaptive);
  return {x, evaluations + bridges};
}

torch::Tensor reference_fixed(const ModelPtr& model, const torch::Tensor& x0,
                              const Conditions& conditions, int steps, double start, double end) {
  check_span(start, end);
  const torch::NoGradGuard no_grad;
  torch::Tensor x = x0.to(torch::kDouble);
  integrate_model(model, x, conditions, start, end,
                  [&](const Field& field, const torch::Tensor& from_x, double from, double to) {
                    return integrate_fixed(field, from_x, conditions, from, to, steps);
                  });
  return x;
}

}  // namespace bespoke
