#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bespoke/model/fields.h"
#include "bespoke/recipe/tensor_objective.h"
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

// The objectives of a problem, trained on and validated on.
inline TensorObjective training_objective(const Problem& problem,
                                          TensorObjectiveOptions options = {}) {
  return {problem.field, problem.training, std::move(options)};
}
inline TensorObjective validation_objective(const Problem& problem,
                                            TensorObjectiveOptions options = {}) {
  return {problem.field, problem.validation, std::move(options)};
}

}  // namespace bespoke::testing
