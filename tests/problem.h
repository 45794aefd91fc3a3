#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bespoke/model/fields.h"
#include "bespoke/recipe/tensor_samples.h"
#include "bespoke/sample/reference.h"
#include "bespoke/solver/catalogue.h"
#include "support.h"

namespace bespoke::testing {

// A small model with pairs to train and validate on.
struct Problem {
  ModelPtr model;
  std::shared_ptr<const Field> field;
  Pairs training, validation;
};

inline Pairs reference_pairs(const ModelPtr& model, int64_t count, uint64_t seed) {
  const auto x0 = starting_noise(*model, count, seed);
  ReferenceOptions options;
  options.tolerances = {1e-8, 1e-8};
  return {x0, reference(model, x0, {}, options).x, {}, {}, nullptr};
}

inline Problem small_problem(SchedulePtr schedule = fm_ot_schedule(),
                             Prediction prediction = Prediction::velocity) {
  Problem problem;
  problem.model = mixture_model(small_mixture(), std::move(schedule), prediction);
  problem.field = std::make_shared<VelocityField>(problem.model);
  problem.training = reference_pairs(problem.model, 96, 1);
  problem.validation = reference_pairs(problem.model, 64, 2);
  return problem;
}

inline NsSolver start_solver(const std::string& name, int nfe,
                             SchedulePtr schedule = fm_ot_schedule()) {
  return make_solver(name, {nfe, std::move(schedule), ""});
}

// The samples of a problem, to train on and to validate on.
inline Samples training_samples(const Problem& problem, const TensorSamplesOptions& options = {}) {
  return tensor_samples(problem.field, problem.training, options);
}
inline Samples validation_samples(const Problem& problem,
                                  const TensorSamplesOptions& options = {}) {
  return tensor_samples(problem.field, problem.validation, options);
}

// Of a solver on some samples, after a run.
inline Columns columns_at(const Samples& samples, const NsSolver& solver,
                          const std::vector<int64_t>& subset, const std::vector<Change>& changes,
                          Counts* counts) {
  return samples.columns(samples.run(solver, subset, counts), changes, counts);
}
inline LinearModel last_step_at(const Samples& samples, const NsSolver& solver,
                                const std::vector<int64_t>& subset, Counts* counts) {
  return samples.last_step(samples.run(solver, subset, counts));
}

}  // namespace bespoke::testing
