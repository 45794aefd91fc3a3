#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bespoke/path/conversion.h"
#include "bespoke/run/arrays.h"
#include "bespoke/run/counts.h"
#include "bespoke/solver/solver_shape.h"

namespace bespoke {

// What is asked of a field at a step: the velocity, guided where the field is; of a solver with
// built-in guidance the conditional velocity, alone or with its difference to the unconditional
// one.
enum class Question { velocity, conditional, conditional_and_difference };
Question question_at(const SolverShape& shape, size_t step);

// How many network calls a question takes for one sample.
int64_t calls_of(Question question);

// The answer; no difference unless it was asked for.
struct Velocities {
  Array velocity, difference;
};

// A velocity field u(t, x) on arrays. Samples are known by numbers, so that each gets its own
// conditions whatever else is in its batch. Times have an entry for each row of x, or one for all.
// What it returns stays as it is: no later call changes it.
class ArrayField {
 public:
  virtual ~ArrayField() = default;

  virtual const Arrays& arrays() const = 0;

  // Answers at each row of x, which is a state of sample samples[row], on the field's own path.
  virtual Velocities evaluate(const Array& x, const std::vector<double>& times,
                              const std::vector<int64_t>& samples, Question question) const = 0;
};

// A field whose model's samples can be drawn: on the FM-OT path every model's velocity is bounded
// and smooth at both ends, whatever it predicts.
class SampledField : public ArrayField {
 public:
  // Answers as `evaluate` does, but on the FM-OT path.
  virtual Velocities evaluate_straight(const Array& x, const std::vector<double>& times,
                                       const std::vector<int64_t>& samples,
                                       Question question) const = 0;

  // Takes one first-order step over an end where the prediction determines nothing, with the data
  // prediction made at `at`.
  virtual Array bridge(const Array& x, double from, double to, double at,
                       const std::vector<int64_t>& samples) const = 0;

  // The times between which it can be integrated.
  virtual Crossing crossing(double start, double end) const = 0;
  virtual SchedulePtr schedule() const = 0;
  // The nearest time at which the velocity can be taken on the field's own path.
  virtual double velocity_time(double t) const = 0;
};

// A model's prediction, before it is made a velocity: all that a caller with a model of any kind
// implements. Guided where the question is `velocity` and the model is guided.
class ArrayModel {
 public:
  virtual ~ArrayModel() = default;
  virtual const Arrays& arrays() const = 0;
  virtual Velocities predict(const Array& x, const std::vector<double>& times,
                             const std::vector<int64_t>& samples, Question question) const = 0;
  // The machine epsilon of its answers: how near a singular end they can be trusted.
  virtual double epsilon() const = 0;
};

// The field of a model that predicts velocities, noise, data, v or what EDM does.
std::shared_ptr<SampledField> model_field(std::shared_ptr<const ArrayModel> model,
                                          Prediction prediction, SchedulePtr schedule);

// Calls work on `units` things in a row, in as few parts of at most `most` as can be, of nearly the
// same size.
void for_even_parts(int64_t units, int64_t most,
                    const std::function<void(int64_t begin, int64_t end)>& work);

// Asks a field about so many rows at most at a time, with whole groups of `group` rows in each
// batch, and counts the cost.
Velocities evaluate_in_batches(const ArrayField& field, const Array& x,
                               const std::vector<double>& times,
                               const std::vector<int64_t>& samples, Question question,
                               int64_t most_rows, int64_t group, Counts* counts);

}  // namespace bespoke
