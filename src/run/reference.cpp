#include "bespoke/run/reference.h"

#include <algorithm>
#include <string>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/base/packing.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/run/multistep.h"

namespace bespoke {

using namespace detail;

namespace {

std::vector<int64_t> part_of(const std::vector<int64_t>& samples, int64_t begin, int64_t end) {
  return {samples.begin() + begin, samples.begin() + end};
}

// leave() for samples where memory is cheap, a batch at a time where the field computes.
Array leave_in_batches(const SmoothWay& smooth, const Array& bar_x, const Array& noise,
                       const std::vector<int64_t>& samples, int64_t batch) {
  if (!smooth.way.bridges_end()) return smooth.leave(bar_x, samples);
  const Arrays& arrays = smooth.field.arrays();
  const Array like = arrays.wide(arrays.rows(noise, 0, 1));
  std::vector<Array> parts;
  for_each_batch(arrays.count(bar_x), batch, nullptr, [&](int64_t begin, int64_t end, const auto&) {
    parts.push_back(arrays.kept(smooth.leave(arrays.cast(arrays.rows(bar_x, begin, end), like),
                                             part_of(samples, begin, end))));
  });
  return arrays.concatenate(parts);
}

// A bridge holds the data prediction, so on the FM-OT path it is a straight line, with the slope of
// its inner end: a step of its own to or from the states at time t.
enum class Side { front, back };
void add_bridge(const Arrays& arrays, std::vector<RecordedSteps>& samples, Side side,
                const Schedule& schedule, double t, const Array& states) {
  const ScaleTimePoint point = from_fm_ot(schedule, t);
  const auto inner = [side](const auto& list) {
    return side == Side::front ? list.front() : list.back();
  };
  const auto insert = [side](auto& list, const auto& value) {
    list.insert(side == Side::front ? list.begin() : list.end(), value);
  };
  for (size_t k = 0; k < samples.size(); ++k) {
    RecordedSteps& steps = samples[k];
    const auto row = static_cast<int64_t>(k);
    const Array neighbour = inner(steps.states);
    const Array row_state = arrays.rows(states, row, row + 1);
    const Array state = arrays.combine({1 / point.s}, {row_state}, neighbour);
    insert(steps.middles, arrays.combine({0.5, 0.5}, {state, neighbour}, neighbour));
    insert(steps.slopes, inner(steps.slopes));
    insert(steps.states, state);
    insert(steps.times, point.t);
  }
}

Reference own_reference(const SampledField& field, const std::shared_ptr<const Arrays>& arrays,
                        const Array& noise, const std::vector<int64_t>& samples,
                        const ReferenceOptions& options) {
  if (samples.empty()) return {arrays->kept(arrays->wide(noise)), {}};
  const SmoothWay smooth(field, options.start, options.end);
  ReferenceOptions inner = options;
  inner.start = smooth.from.t;
  inner.end = smooth.to.t;
  const auto slope = [&](const Array& x, const std::vector<double>& times,
                         const std::vector<int64_t>& of) {
    return field.evaluate_straight(x, times, of, Question::velocity).velocity;
  };
  const auto start = [&](int64_t begin, int64_t end) {
    return smooth.enter(arrays->wide(arrays->rows(noise, begin, end)),
                        part_of(samples, begin, end));
  };
  const IntegrationProblem problem = {*arrays, slope, samples, start, noise};
  const SchedulePtr schedule = field.schedule();
  const bool is_fixed = options.fixed_evaluations > 0;  // and then goes to the end without a bridge
  const auto bridged = static_cast<int64_t>(smooth.way.bridges_start());
  const ScaleTimePoint end = from_fm_ot(*schedule, smooth.way.end);
  const double last = std::min(smooth.to.t, from_fm_ot(*schedule, schedule->last_time()).t);
  if (is_fixed) inner.end = end.t;
  IntegrationResult run =
      is_fixed ? integrate_multistep(problem, options.fixed_evaluations - bridged, last, inner)
               : integrate_adaptive(problem, inner);
  const auto count = static_cast<int64_t>(samples.size());
  const int64_t batch = options.batch > 0 ? options.batch : count;
  for (int64_t& spent : run.evaluations) spent += is_fixed ? bridged : smooth.way.bridges();
  Reference result{is_fixed ? arrays->combine({end.s}, {run.x}, run.x)
                            : leave_in_batches(smooth, run.x, noise, samples, batch),
                   std::move(run.evaluations)};
  if (options.record <= 0) return result;
  if (smooth.way.bridges_start()) {
    add_bridge(*arrays, run.steps, Side::front, *schedule, smooth.way.start,
               arrays->kept(arrays->wide(noise)));
  }
  if (smooth.way.bridges_end() && !is_fixed) {
    add_bridge(*arrays, run.steps, Side::back, *schedule, smooth.way.end, result.x);
  }
  result.trajectories = Trajectories(arrays, std::move(run.steps),
                                     trajectory_span(field, smooth.way.start, smooth.way.end));
  return result;
}

// A sample that the reference could not finish.
struct GivenUp {
  int64_t sample;
  std::string why;
};

// What a member drew, for the others.
std::string packed(const Arrays& arrays, const Reference& mine,
                   const std::vector<GivenUp>& given_up) {
  Packer packer;
  packer.add(static_cast<int64_t>(given_up.size()));
  for (const GivenUp& one : given_up) packer.add(one.sample).add(one.why);
  packer.add(mine.evaluations).add(arrays.bytes(mine.x));
  packer.add(mine.trajectories.count());
  for (const RecordedSteps& steps : mine.trajectories.samples()) {
    packer.add(steps.times);
    for (const auto* list : {&steps.states, &steps.slopes, &steps.middles}) {
      packer.add(arrays.bytes(arrays.concatenate(*list)));
    }
  }
  return packer.bytes();
}

std::vector<Array> single_rows(const Arrays& arrays, const Array& all) {
  std::vector<Array> rows;
  for (int64_t k = 0; k < arrays.count(all); ++k) rows.push_back(arrays.rows(all, k, k + 1));
  return rows;
}

Reference unpacked(const std::shared_ptr<const Arrays>& arrays, const std::string& bytes,
                   const TrajectorySpan& span, const ReferenceOptions& options) {
  Unpacker unpacker(bytes);
  for (int64_t left = unpacker.integer(); left > 0; --left) {
    const int64_t sample = unpacker.integer();
    options.on_given_up(sample, unpacker.text());
  }
  Reference one;
  one.evaluations = unpacker.integers();
  one.x = arrays->from_bytes(unpacker.text());
  std::vector<RecordedSteps> samples;
  for (int64_t left = unpacker.integer(); left > 0; --left) {
    RecordedSteps steps;
    steps.times = unpacker.numbers();
    for (auto* list : {&steps.states, &steps.slopes, &steps.middles}) {
      *list = single_rows(*arrays, arrays->from_bytes(unpacker.text()));
    }
    samples.push_back(std::move(steps));
  }
  if (!samples.empty()) one.trajectories = Trajectories(arrays, std::move(samples), span);
  return one;
}

void check_evaluations(const ReferenceOptions& options) {
  if (options.fixed_evaluations == 0) return;
  if (options.fixed_evaluations < kFewestEvaluations) {
    throw usage_error("the reference needs at least {} evaluations, found {}", kFewestEvaluations,
                      options.fixed_evaluations);
  }
  if (options.start != 0 || options.end != 1) {
    throw usage_error(
        "a reference of so many evaluations runs from t = 0 to 1, found {} to {}; leave the "
        "evaluations to the tolerance",
        options.start, options.end);
  }
}

Crossing checked(const SampledField& field, double start, double end) {
  if (start >= 0 && start < end && end <= 1) return field.crossing(start, end);
  throw usage_error("the reference runs over 0 <= start < end <= 1, found {} to {}", start, end);
}

}  // namespace

SmoothWay::SmoothWay(const SampledField& field, double start, double end)
    : field(field),
      way(checked(field, start, end)),
      from(from_fm_ot(*field.schedule(), way.first)),
      to(from_fm_ot(*field.schedule(), way.last)) {}

Array SmoothWay::enter(Array x, const std::vector<int64_t>& samples) const {
  if (way.bridges_start()) x = field.bridge(x, way.start, way.first, way.first, samples);
  return field.arrays().combine({1 / from.s}, {x}, x);
}

Array SmoothWay::leave(const Array& bar_x, const std::vector<int64_t>& samples) const {
  const Array x = field.arrays().combine({to.s}, {bar_x}, bar_x);
  return way.bridges_end() ? field.bridge(x, way.last, way.end, way.last, samples) : x;
}

Reference draw_reference(const std::shared_ptr<const SampledField>& field,
                         const std::shared_ptr<const Arrays>& arrays, const Array& noise,
                         const std::vector<int64_t>& samples, const ReferenceOptions& options,
                         Team& team) {
  checked(*field, options.start, options.end);
  check_evaluations(options);
  if (team.size() == 1) return own_reference(*field, arrays, noise, samples, options);
  const Share share = share_of(static_cast<int64_t>(samples.size()), team);
  const auto all = exchange_work(team, [&] {
    std::vector<GivenUp> given_up;
    ReferenceOptions part_options = options;
    part_options.first_sample += share.begin;
    part_options.record = std::max(int64_t{0}, options.record - share.begin);
    if (part_options.on_given_up) {
      part_options.on_given_up = [&](int64_t sample, const std::string& why) {
        given_up.push_back({sample, why});
      };
    }
    return packed(*arrays,
                  own_reference(*field, arrays, arrays->rows(noise, share.begin, share.end),
                                part_of(samples, share.begin, share.end), part_options),
                  given_up);
  });
  Reference reference;
  std::vector<Array> parts;
  const TrajectorySpan span = trajectory_span(*field, options.start, options.end);
  for (const std::string& bytes : all) {
    Reference one = unpacked(arrays, bytes, span, options);
    parts.push_back(one.x);
    reference.evaluations.insert(reference.evaluations.end(), one.evaluations.begin(),
                                 one.evaluations.end());
    if (one.trajectories.count() > 0) reference.trajectories.append(std::move(one.trajectories));
  }
  reference.x = arrays->concatenate(parts);
  return reference;
}

TrajectorySpan trajectory_span(const SampledField& field, double start, double end) {
  return {field.schedule(), start, end, field.velocity_time(start), field.velocity_time(end)};
}

}  // namespace bespoke
