#include "bespoke/run/array_field.h"

#include <algorithm>
#include <utility>

namespace bespoke {

namespace {

// A number for each row, from one for all or as many.
std::vector<double> each(const std::vector<double>& values, int64_t rows) {
  if (values.size() == 1) return std::vector<double>(static_cast<size_t>(rows), values.front());
  return values;
}

template <class Value>
std::vector<Value> part(const std::vector<Value>& values, int64_t begin, int64_t end) {
  return {values.begin() + begin, values.begin() + end};
}

// How outputs become velocities, by row.
struct Calls {
  std::vector<double> times, scales, states, outputs;

  void add(const ModelCall& call) {
    times.push_back(call.time);
    scales.push_back(call.scale);
    states.push_back(call.velocity.state);
    outputs.push_back(call.velocity.output);
  }

  bool scales_states() const {
    return std::any_of(scales.begin(), scales.end(), [](double scale) { return scale != 1; });
  }
  bool converts() const {
    const auto is = [](double wanted) { return [=](double value) { return value == wanted; }; };
    return !std::all_of(states.begin(), states.end(), is(0)) ||
           !std::all_of(outputs.begin(), outputs.end(), is(1));
  }
};

class ModelField : public SampledField {
 public:
  ModelField(std::shared_ptr<const ArrayModel> model, Prediction prediction, SchedulePtr schedule)
      : model_(std::move(model)),
        prediction_(prediction),
        schedule_(std::move(schedule)),
        straight_(fm_ot_schedule()),
        change_(schedule_change(schedule_, straight_)) {}

  const Arrays& arrays() const override { return model_->arrays(); }
  SchedulePtr schedule() const override { return schedule_; }
  Crossing crossing(double start, double end) const override {
    return crossing_of(prediction_, *schedule_, start, end, margin());
  }
  double velocity_time(double t) const override {
    return safe_velocity_time(prediction_, *schedule_, t, margin());
  }

  Velocities evaluate(const Array& x, const std::vector<double>& times,
                      const std::vector<int64_t>& samples, Question question) const override {
    return converted(x, times, samples, question, [this](double t) {
      return velocity_call(prediction_, *schedule_, t, margin());
    });
  }

  Velocities evaluate_straight(const Array& x, const std::vector<double>& times,
                               const std::vector<int64_t>& samples,
                               Question question) const override {
    return converted(x, times, samples, question, [this](double r) {
      return rescheduled_call(prediction_, *schedule_, *change_, *straight_, r, margin());
    });
  }

  Array bridge(const Array& x, double from, double to, double at,
               const std::vector<int64_t>& samples) const override {
    const Affine<double> step = bridge_step(prediction_, *schedule_, from, to, at);
    const Array f = model_->predict(x, {at}, samples, Question::velocity).velocity;
    return arrays().combine({step.state, step.output}, {x, f}, x);
  }

 private:
  double margin() const { return safe_margin(model_->epsilon()); }

  template <class Call>
  Velocities converted(const Array& x, const std::vector<double>& times,
                       const std::vector<int64_t>& samples, Question question,
                       const Call& call_at) const {
    Calls calls;
    for (const double t : times) calls.add(call_at(t));
    const int64_t rows = arrays().count(x);
    Array state = x;
    if (calls.scales_states()) {
      state = arrays().combine_per_sample({each(calls.scales, rows)}, {x});
    }
    Velocities velocities = model_->predict(state, calls.times, samples, question);
    if (!calls.converts()) return velocities;
    const std::vector<double> outputs = each(calls.outputs, rows);
    velocities.velocity = arrays().combine_per_sample({each(calls.states, rows), outputs},
                                                      {state, velocities.velocity});
    if (velocities.difference) {
      // The same states on both sides: only what the model returned differs.
      const std::vector<double> none(outputs.size(), 0);
      velocities.difference =
          arrays().combine_per_sample({none, outputs}, {state, velocities.difference});
    }
    return velocities;
  }

  std::shared_ptr<const ArrayModel> model_;
  Prediction prediction_;
  SchedulePtr schedule_, straight_;
  ScaleTimePtr change_;
};

}  // namespace

Question question_at(const SolverShape& shape, size_t step) {
  if (!shape.guides_itself()) return Question::velocity;
  return shape.is_guided(step) ? Question::conditional_and_difference : Question::conditional;
}

int64_t calls_of(Question question) {
  return question == Question::conditional_and_difference ? 2 : 1;
}

std::shared_ptr<SampledField> model_field(std::shared_ptr<const ArrayModel> model,
                                          Prediction prediction, SchedulePtr schedule) {
  return std::make_shared<ModelField>(std::move(model), prediction, std::move(schedule));
}

void for_even_parts(int64_t units, int64_t most,
                    const std::function<void(int64_t begin, int64_t end)>& work) {
  if (units == 0) return;
  const int64_t parts = (units + most - 1) / most;
  const int64_t size = (units + parts - 1) / parts;
  for (int64_t begin = 0; begin < units; begin += size) work(begin, std::min(units, begin + size));
}

Velocities evaluate_in_batches(const ArrayField& field, const Array& x,
                               const std::vector<double>& times,
                               const std::vector<int64_t>& samples, Question question,
                               int64_t most_rows, int64_t group, Counts* counts) {
  const Arrays& arrays = field.arrays();
  const int64_t rows = arrays.count(x);
  counts->forwards += rows * calls_of(question);
  if (rows <= most_rows) return field.evaluate(x, times, samples, question);
  std::vector<Array> velocities, differences;
  for_even_parts(
      rows / group, std::max<int64_t>(1, most_rows / group), [&](int64_t first, int64_t last) {
        const int64_t begin = first * group, end = last * group;
        const Velocities answer = field.evaluate(
            arrays.rows(x, begin, end), times.size() == 1 ? times : part(times, begin, end),
            part(samples, begin, end), question);
        velocities.push_back(answer.velocity);
        if (answer.difference) differences.push_back(answer.difference);
      });
  return {arrays.concatenate(velocities),
          differences.empty() ? Array() : arrays.concatenate(differences)};
}

}  // namespace bespoke
