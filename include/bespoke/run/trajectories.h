#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bespoke/path/schedule.h"
#include "bespoke/run/arrays.h"

namespace bespoke {

// What an adaptive run keeps of one sample: x and u where its n steps meet, x in their middles.
// Each array has one sample, and lies where memory is cheap.
struct RecordedSteps {
  std::vector<double> times;          // n + 1
  std::vector<Array> states, slopes;  // n + 1
  std::vector<Array> middles;         // n
};

// The part of a path on which trajectories are known. At an end where a model's velocity is not
// finite or not determined, it is taken at the nearest of the velocity times.
struct TrajectorySpan {
  SchedulePtr schedule;
  double start, end;
  double first_velocity, last_velocity;
};

// Trajectories of samples at any time, without evaluations: each sample's own accepted steps, and
// within a step the quartic of dense_weights. States err about as much there as at the steps' ends
// (docs/develop/architecture.md has figures); velocities, the slopes of the quartics, are of one
// order less: where they matter, evaluate the field at state_at.
class Trajectories {
 public:
  Trajectories() = default;
  // Trajectories from steps on the FM-OT path, in its time and coordinates, seen from the path that
  // `span` lies on.
  Trajectories(std::shared_ptr<const Arrays> arrays, std::vector<RecordedSteps> samples,
               TrajectorySpan span);

  int64_t count() const { return static_cast<int64_t>(samples_.size()); }
  const TrajectorySpan& span() const { return span_; }
  const std::vector<RecordedSteps>& samples() const { return samples_; }

  // The accepted steps of a sample in the model's time, from start to end, bridges included.
  std::vector<double> times(int64_t sample) const;

  // The states x(t) and their velocities for some samples, in the model's time and coordinates, for
  // t from start to end.
  Array state_at(double t, const std::vector<int64_t>& samples) const;
  Array velocity_at(double t, const std::vector<int64_t>& samples) const;

  // The trajectories of some samples.
  Trajectories of(const std::vector<int64_t>& samples) const;

  // The same trajectories, seen from another path with the same log-SNR at its ends and finite
  // velocities there.
  Trajectories seen_from(SchedulePtr path) const;

  // Adds the samples of another part of the same run.
  void append(Trajectories other);

 private:
  void check(double t) const;
  Array at(double t, double state_factor, double slope_factor,
           const std::vector<int64_t>& samples) const;

  std::shared_ptr<const Arrays> arrays_;
  std::vector<RecordedSteps> samples_;
  TrajectorySpan span_ = {};
};

}  // namespace bespoke
