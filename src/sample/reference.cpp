#include "bespoke/sample/reference.h"

#include <torch/torch.h>

#include <array>
#include <cmath>
#include <utility>

#include "adaptive.h"
#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/path/conversion.h"
#include "bespoke/path/scale_time.h"

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

// One first-order step from `from` to `to` with the data prediction the model makes at `at`.
torch::Tensor bridge(const Model& model, const torch::Tensor& x, const Conditions& conditions,
                     double from, double to, double at) {
  const auto t = torch::full({x.size(0)}, at, torch::kDouble);
  const Affine<double> step = bridge_step(model.prediction(), *model.schedule(), from, to, at);
  return step.state * x + step.output * model.predict(x, t, conditions).to(torch::kDouble);
}

Crossing crossing_of(const Model& model, double start, double end) {
  return crossing_of(model.prediction(), *model.schedule(), start, end, safe_margin(model));
}

// The way of a model's samples in coordinates in which it is smooth: those of the FM-OT path, from
// `from` to `to`.
struct SmoothWay {
  SmoothWay(ModelPtr model, double start, double end)
      : model(std::move(model)),
        way(crossing_of(*this->model, start, end)),
        from(from_fm_ot(*this->model->schedule(), way.first)),
        to(from_fm_ot(*this->model->schedule(), way.last)) {}

  RescheduledField field() const { return {model, fm_ot_schedule()}; }

  torch::Tensor enter(torch::Tensor x, const Conditions& conditions) const {
    if (way.bridges_start()) x = bridge(*model, x, conditions, way.start, way.first, way.first);
    return x / from.s;
  }

  torch::Tensor leave(const torch::Tensor& bar_x, const Conditions& conditions) const {
    const torch::Tensor x = to.s * bar_x;
    return way.bridges_end() ? bridge(*model, x, conditions, way.last, way.end, way.last) : x;
  }

  ModelPtr model;
  Crossing way;
  ScaleTimePoint from, to;
};

// leave() for samples on the CPU, a batch at a time on the device.
torch::Tensor leave_in_batches(const SmoothWay& smooth, const torch::Tensor& bar_x,
                               const Conditions& conditions, torch::Device device, int64_t batch) {
  if (!smooth.way.bridges_end()) return smooth.leave(bar_x, conditions);
  std::vector<torch::Tensor> parts;
  for_each_batch(bar_x.size(0), batch, nullptr, [&](int64_t begin, int64_t end, const auto&) {
    parts.push_back(smooth
                        .leave(bar_x.slice(0, begin, end).to(device),
                               near(slice(conditions, begin, end), device))
                        .to(torch::kCPU));
  });
  return torch::cat(parts);
}

// A bridge holds the data prediction, so on the FM-OT path it is a straight line, with the slope of
// its inner end: a step of its own to or from the states [batch, ...] at time t.
enum class Side { front, back };
void add_bridge(std::vector<RecordedSteps>& samples, Side side, const Schedule& schedule, double t,
                const torch::Tensor& states) {
  const ScaleTimePoint point = from_fm_ot(schedule, t);
  const auto inner = [side](const auto& list) {
    return side == Side::front ? list.front() : list.back();
  };
  const auto insert = [side](auto& list, const auto& value) {
    list.insert(side == Side::front ? list.begin() : list.end(), value);
  };
  const torch::Tensor bar_states = (states / point.s).to(torch::kCPU);
  for (size_t k = 0; k < samples.size(); ++k) {
    RecordedSteps& steps = samples[k];
    const torch::Tensor state = bar_states[static_cast<int64_t>(k)];
    const torch::Tensor neighbour = inner(steps.states);
    insert(steps.middles, (0.5 * (state + neighbour)).to(neighbour.scalar_type()));
    insert(steps.slopes, inner(steps.slopes));
    insert(steps.states, state.to(neighbour.scalar_type()));
    insert(steps.times, point.t);
  }
}

DenseTrajectories trajectories_of(const Model& model, const Crossing& way,
                                  const torch::Tensor& start, const torch::Tensor& end,
                                  std::vector<RecordedSteps> steps) {
  const SchedulePtr schedule = model.schedule();
  if (way.bridges_start()) add_bridge(steps, Side::front, *schedule, way.start, start);
  if (way.bridges_end()) add_bridge(steps, Side::back, *schedule, way.end, end);
  return {std::move(steps), trajectory_span(model, way.start, way.end)};
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

TrajectorySpan trajectory_span(const Model& model, double start, double end) {
  const auto velocity_time = [&](double t) {
    return safe_velocity_time(model.prediction(), *model.schedule(), t, safe_margin(model));
  };
  return {model.schedule(), start, end, velocity_time(start), velocity_time(end)};
}

ReferenceResult reference(const ModelPtr& model, const torch::Tensor& x0,
                          const Conditions& conditions, const ReferenceOptions& options) {
  check_span(options.start, options.end);
  const torch::NoGradGuard no_grad;
  if (x0.size(0) == 0) {
    return {x0.to(torch::kCPU, torch::kDouble), torch::empty({0}, torch::kLong)};
  }
  const SmoothWay smooth(model, options.start, options.end);
  ReferenceOptions inner = options;
  inner.start = smooth.from.t;
  inner.end = smooth.to.t;
  const auto states = [&](int64_t begin, int64_t end) {
    return smooth.enter(x0.slice(0, begin, end).to(torch::kDouble).contiguous(),
                        near(slice(conditions, begin, end), x0.device()));
  };
  AdaptiveResult run =
      run_adaptive(smooth.field(), {x0.sizes().vec(), states, kept_type(x0)}, conditions, inner);
  const int64_t batch = options.batch > 0 ? options.batch : x0.size(0);
  ReferenceResult result = {leave_in_batches(smooth, run.x, conditions, x0.device(), batch),
                            run.evaluations + smooth.way.bridges()};
  if (options.record > 0) {
    result.trajectories = trajectories_of(*model, smooth.way, x0.to(torch::kCPU, torch::kDouble),
                                          result.x, std::move(run.steps));
  }
  return result;
}

torch::Tensor reference_fixed(const ModelPtr& model, const torch::Tensor& x0,
                              const Conditions& conditions, int steps, double start, double end) {
  check_span(start, end);
  const torch::NoGradGuard no_grad;
  const SmoothWay smooth(model, start, end);
  const torch::Tensor bar_x =
      integrate_fixed(smooth.field(), smooth.enter(x0.to(torch::kDouble), conditions), conditions,
                      smooth.from.t, smooth.to.t, steps);
  return smooth.leave(bar_x, conditions);
}

}  // namespace bespoke
