#include "bespoke/sample/reference.h"

#include <torch/torch.h>

#include <array>
#include <numeric>
#include <utility>

#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/run/reference.h"
#include "bespoke/sample/tensor_field.h"
#include "bespoke/tensor/tensor_arrays.h"
#include "solver_run.h"

namespace bespoke {

using namespace detail;

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

// Samples of an adaptive run, in the form that tensors have.
ReferenceResult result_of(Reference drawn) {
  return {tensor_of(drawn.x), torch::tensor(drawn.evaluations, torch::kLong),
          DenseTrajectories(std::move(drawn.trajectories))};
}

std::vector<int64_t> row_numbers(const torch::Tensor& x0) {
  std::vector<int64_t> numbers(static_cast<size_t>(x0.size(0)));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
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

ReferenceResult integrate_adaptive(const Field& field, const torch::Tensor& x0,
                                   const Conditions& conditions, const ReferenceOptions& options) {
  const torch::NoGradGuard no_grad;
  const std::shared_ptr<const Field> borrowed(&field, [](const Field*) {});
  const auto on_tensors = tensor_field(borrowed, conditions_on(conditions, x0.device()));
  const Array noise = array_of(noise_state(x0));
  const auto slope = [&](const Array& x, const std::vector<double>& times,
                         const std::vector<int64_t>& samples) {
    return on_tensors->evaluate(x, times, samples, Question::velocity).velocity;
  };
  const Arrays& arrays = *tensor_arrays();
  const auto start = [&](int64_t begin, int64_t end) {
    return arrays.wide(arrays.rows(noise, begin, end));
  };
  IntegrationResult run =
      integrate_adaptive({arrays, slope, row_numbers(x0), start, noise}, options);
  // On the FM-OT path time and state are the field's own.
  const TrajectorySpan span = {fm_ot_schedule(), options.start, options.end, options.start,
                               options.end};
  return result_of({run.x, std::move(run.evaluations),
                    Trajectories(tensor_arrays(), std::move(run.steps), span)});
}

TrajectorySpan trajectory_span(const Model& model, double start, double end) {
  const ModelPtr borrowed(&model, [](const Model*) {});
  return trajectory_span(*tensor_field(borrowed, {}), start, end);
}

ReferenceResult reference(const ModelPtr& model, const torch::Tensor& x0,
                          const Conditions& conditions, const ReferenceOptions& options,
                          Team& team) {
  const torch::NoGradGuard no_grad;
  return result_of(draw_reference(tensor_field(model, conditions_on(conditions, x0.device())),
                                  tensor_arrays(), array_of(noise_state(x0)), row_numbers(x0),
                                  options, team));
}

torch::Tensor reference_fixed(const ModelPtr& model, const torch::Tensor& x0,
                              const Conditions& conditions, int steps, double start, double end) {
  const torch::NoGradGuard no_grad;
  const Arrays& arrays = *tensor_arrays();
  const auto field = tensor_field(model, conditions_on(conditions, x0.device()));
  const SmoothWay smooth(*field, start, end);
  const std::vector<int64_t> samples = row_numbers(x0);
  const Array bar_x = smooth.enter(arrays.wide(array_of(x0)), samples);
  const torch::Tensor there =
      integrate_fixed(RescheduledField(model, fm_ot_schedule()), tensor_of(bar_x), conditions,
                      smooth.from.t, smooth.to.t, steps);
  return tensor_of(smooth.leave(array_of(there), samples));
}

}  // namespace bespoke
