#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bespoke/base/team.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/run/adaptive.h"
#include "bespoke/run/array_field.h"
#include "bespoke/run/trajectories.h"

namespace bespoke {

// The reference samples from some noise.
struct Reference {
  Array x;                           // x(1) in float64, where memory is cheap
  std::vector<int64_t> evaluations;  // what each sample spent
  Trajectories trajectories = {};    // those recorded, in the type of the noise
};

// Draws reference samples by integrate_adaptive in the coordinates of the FM-OT path,
// bar x = x / (alpha + sigma), where the field is D - E, bounded and smooth at both ends whatever
// the schedule. An end at which the prediction determines nothing is bridged by a first-order step
// of negligible length. `samples` are the numbers of the rows of noise. Each member of a team draws
// its share, and all get all.
Reference draw_reference(const std::shared_ptr<const SampledField>& field,
                         const std::shared_ptr<const Arrays>& arrays, const Array& noise,
                         const std::vector<int64_t>& samples, const ReferenceOptions& options,
                         Team& team = alone());

// How samples of a model go through the coordinates of the FM-OT path, in float64.
struct SmoothWay {
  // The way between two times of the model's own path.
  SmoothWay(const SampledField& field, double start, double end);

  // Takes states at `start` into these coordinates.
  Array enter(Array x, const std::vector<int64_t>& samples) const;
  // Takes states in these coordinates to the model's own at `end`.
  Array leave(const Array& bar_x, const std::vector<int64_t>& samples) const;

  const SampledField& field;  // of the model
  Crossing way;               // the times that can be integrated between
  ScaleTimePoint from;        // the coordinates at `start`
  ScaleTimePoint to;          // the coordinates at `end`
};

// What recorded trajectories of a field lie on.
TrajectorySpan trajectory_span(const SampledField& field, double start = 0, double end = 1);

}  // namespace bespoke
