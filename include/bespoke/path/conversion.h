#pragma once

#include "bespoke/path/prediction.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/path/schedule.h"

namespace bespoke {

// What a program with any arrays needs to get velocities of a model. All margins are those of
// safe_margin.

// How to ask a model for a velocity: at `time` about the state scale * x. With its output f the
// velocity at x is
//   velocity.state * (scale * x) + velocity.output * f.
struct ModelCall {
  double time, scale;
  Affine<double> velocity;
};

// The velocity on the model's own path at time t.
ModelCall velocity_call(Prediction prediction, const Schedule& schedule, double t, double margin);

// How to ask a model for its data prediction, which a clip acts on, at time t: at `time` about x.
// With its output f it is data.state * x + data.output * f.
struct DataCall {
  double time;
  Affine<double> data;
};
DataCall data_call(Prediction prediction, const Schedule& schedule, double t, double margin);

// The velocity at time r on the path `to`; `transform` is schedule_change(schedule, to).
ModelCall rescheduled_call(Prediction prediction, const Schedule& schedule,
                           const ScaleTime& transform, const Schedule& to, double r, double margin);

// Between which times a model is integrated over [start, end]: from `first` to `last`, which differ
// from the ends where the prediction determines nothing there. Such an end is bridged.
struct Crossing {
  double start, end, first, last;

  bool bridges_start() const { return first > start; }
  bool bridges_end() const { return last < end; }
  int bridges() const { return (bridges_start() ? 1 : 0) + (bridges_end() ? 1 : 0); }
};
Crossing crossing_of(Prediction prediction, const Schedule& schedule, double start, double end,
                     double margin);

// A bridge is one first-order step from `from` to `to`, with the data prediction that the model
// makes of x at time `at`: x becomes state * x + output * f.
Affine<double> bridge_step(Prediction prediction, const Schedule& schedule, double from, double to,
                           double at);

}  // namespace bespoke
