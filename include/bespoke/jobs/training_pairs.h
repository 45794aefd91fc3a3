#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bespoke/distill/state.h"
#include "bespoke/jobs/pair_maker.h"

namespace bespoke {

// What a distillation learns from and is measured on, intact and on the job's device.
struct TrainingPairs {  // NOLINT(bugprone-exception-escape): to move JSON throws nothing
  Pairs train;          // what solvers are fitted to
  std::optional<Pairs> validation;    // none: the training pairs measure
  std::optional<Pairs> matching;      // whose statistics are matched, where they are made for it
  nlohmann::json provenance;          // what they are, as solver files and run folders say it
  int64_t reference_evaluations = 0;  // spent on them now; 0 where they were read

  // Those that tell how good a solver is.
  const Pairs& measured() const { return validation ? *validation : train; }
};

// Those of a folder, the first `count` of the training pairs or all where it is 0, with their
// trajectories where the method reads them. The folder must have validation pairs.
TrainingPairs read_training_pairs(const std::string& folder, int64_t count, Method method,
                                  const OpenModel& open, const Execution& execution);

// Made now, in memory, with as many trajectories as the fit reads.
TrainingPairs make_training_pairs(const OpenModel& open, const PairRequest& request,
                                  const Execution& execution);

}  // namespace bespoke
