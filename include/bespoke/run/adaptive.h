#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bespoke/run/arrays.h"
#include "bespoke/run/trajectories.h"
#include "bespoke/solver/dormand_prince.h"

namespace bespoke {

struct ReferenceOptions {
  Tolerances tolerances;
  // Not 0: samples are drawn by so many evaluations each instead (run/multistep.h), from noise to
  // data.
  int64_t fixed_evaluations = 0;
  double start = 0, end = 1;                  // in the model's time; x_0 is the state at start
  int64_t most_evaluations = 20000;           // per sample, before it is called diverged
  int64_t first_sample = 0;                   // the number of x0[0] among all samples of a run
  std::function<void(double)> on_progress;    // fraction of all samples' time done, 0 ... 1
  int64_t batch = 0;                          // samples computed at a time, 0 for all
  std::function<void(int64_t)> on_less = {};  // told a smaller batch, where memory ran out
  int64_t record = 0;  // keep the trajectories of the first so many; x(1) is the same either way
  // Told the number of a sample that the reference cannot finish, and why; its x and its trajectory
  // are then NaN. Without this, such a sample is an Error (diverged).
  std::function<void(int64_t sample, const std::string& why)> on_given_up = {};
  // Whether all samples take the same steps, by their mean error: for fields that take one time for
  // a whole batch. They are then computed in one batch.
  bool together = false;
};

// What is integrated: dx/dt = slope(x, t) for samples known by numbers, from states that are made
// as they are needed, in float64.
struct IntegrationProblem {
  const Arrays& arrays;
  std::function<Array(const Array& x, const std::vector<double>& times,
                      const std::vector<int64_t>& samples)>
      slope;
  std::vector<int64_t> samples;
  std::function<Array(int64_t begin, int64_t end)> start;
  Array like;  // recorded steps are of its type
};

struct IntegrationResult {
  Array x;                           // in float64, where memory is cheap
  std::vector<int64_t> evaluations;  // what each sample spent
  std::vector<RecordedSteps> steps;  // of the samples that options.record asks for
};

// DormandPrince over [options.start, options.end]. Every sample has steps of its own, so a result
// does not depend on what else is in the batch. Samples that arrive make room in the batch for the
// next, so that it stays full; memory where the field computes is that of two batches.
IntegrationResult integrate_adaptive(const IntegrationProblem& problem,
                                     const ReferenceOptions& options);

}  // namespace bespoke
