#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bespoke/jobs/condition_deals.h"
#include "bespoke/jobs/execution.h"
#include "bespoke/jobs/open_model.h"
#include "bespoke/measure/card_check.h"
#include "bespoke/recipe/pair_store.h"
#include "bespoke/recipe/pairs.h"

namespace bespoke {

// Pairs of a model as it is opened, guided where it is to be; where guidance is a range each pair
// has its own weight. Pairs that the reference cannot finish have an x1 of NaN. `what` is told to
// execution.on_progress.
Pairs make_pairs(const OpenModel& open, PairSource source, const Execution& execution,
                 const std::string& what);

// Those of them that can be learnt from, on the device of the job; of the others there is a note.
// `what` names them.
Pairs intact_pairs(const Pairs& pairs, const std::string& what, const Execution& execution);

// Which pairs a job needs.
struct PairRequest {
  std::vector<std::string> conditions;  // NAME=VALUE, as ConditionDeals takes them
  PairPlan plan;                        // its owner, tf32 and conditions are filled in
  // In memory alone: how many pairs to match the statistics of, from the noise after the training
  // pairs'.
  int64_t matching = 0;
  Tolerances matching_tolerances = {1e-3, 1e-3};  // of these, which need no exact samples
  // In memory alone: evaluations of each sample; 0: as many as the plan's tolerances take.
  int64_t fixed_evaluations = 0;
};

// Makes the pairs of a model, for a folder or in memory: the same either way.
class PairMaker {
 public:
  // Everything that can be wrong with the request is found here.
  PairMaker(const OpenModel& open, PairRequest request, Execution execution);

  // The plan of the request with all of it filled in, and as choose_reference left it.
  const PairPlan& plan() const { return request_.plan; }
  // As in the request, or as choose_reference left it; 0: samples are drawn to the tolerances.
  int64_t fixed_evaluations() const { return request_.fixed_evaluations; }

  // Notes of what is doubtful in a few samples of a network, before hundreds are made.
  void look_first() const;
  // The same of pairs that were made, which costs nothing.
  void look_at(const Pairs& pairs) const;

  // Where a number of evaluations is asked for: whether they are best spent evenly, or by steps
  // that follow the errors, is found out and done from then on. The calls that this took.
  int64_t choose_reference();

  // Makes what the folder lacks, after a first look where it has nothing yet. The error of one that
  // is interrupted says how to go on.
  PairReport fill(const std::filesystem::path& folder) const;

  // In memory, as they are made: see intact_pairs. Training pairs with so many trajectories.
  Pairs make(Split split, int64_t trajectories = 0) const;
  // Likewise the pairs whose statistics are matched, as many as the request says.
  Pairs make_matching() const;

 private:
  void note_remarks(const SampleGlance& glance) const;
  PairReport fill_at_once(const std::filesystem::path& folder) const;
  PairSource source_of(Split split, int64_t trajectories) const;
  Pairs make(Split split, PairSource source, const std::string& what) const;

  const OpenModel& open_;
  PairRequest request_;
  Execution execution_;
  int64_t matching_evaluations_;  // statistics need no exact samples
  ConditionDeals deals_;
};

}  // namespace bespoke
