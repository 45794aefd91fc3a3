#pragma once

#include <memory>

#include "bespoke/distill/objective.h"
#include "bespoke/model/fields.h"
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
  return {x0, reference(model, x0, {}, options).x, {}, {}};
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

inline std::vector<int64_t> first_samples(int64_t count) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back(i);
  return samples;
}

}  // namespace bespoke::testing
