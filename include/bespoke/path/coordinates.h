#pragma once

#include <memory>

#include "bespoke/path/scale_time.h"
#include "bespoke/path/schedule.h"

namespace bespoke {

// The time itself, or the last at which a model is asked on this path: where a final denoising step
// follows, what it answers there is held.
double last_inside(const Schedule& path, double t);

// How a model is described (schedule, time, scale of states) must not change which solver is found
// for it. So solvers are looked for in coordinates that are the same however its path is described,
// and are translated at the end.
//
// They are those of the FM-OT path, y = x / (alpha + sigma) at r = alpha / (alpha + sigma), a
// function of log-SNR alone. The part of it that the model's path covers is run through while time
// goes from 0 to 1, with a final denoising step where the model's path has one. States are scaled
// so that those at the end are the model's own samples, also where its path ends before the data.
struct Coordinates {
  SchedulePtr own;        // the model's path
  SchedulePtr canonical;  // the same in these coordinates
  // How states in these coordinates follow from the model's own, y = s x, and the other way.
  ScaleTimePtr to_canonical, to_own;

  // The factor on the noise that a sampler draws: the state at time 0 is this times the model's
  // own.
  double start_factor() const;

  // The same time on the other path, but for times no model is asked at (last_inside).
  double canonical_time(double own_time) const;
  double own_time(double canonical_time) const;
};
using CoordinatesPtr = std::shared_ptr<const Coordinates>;

// The canonical coordinates of a path; null where the model's own are that: on the whole FM-OT
// path.
CoordinatesPtr canonical_coordinates(const SchedulePtr& schedule);

// The part of the FM-OT path that a path covers.
struct StraightPart {
  double start, end;  // r
  double scale;       // of states
};
StraightPart straight_part(const Schedule& schedule);

}  // namespace bespoke
