#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/jobs/open_model.h"
#include "bespoke/recipe/pair_manifest.h"

namespace bespoke {

// The conditions of pairs, dealt out to them: a class is drawn for each pair unless the user says
// otherwise, and what the user gives is dealt in turn, from the first in either split.
class ConditionDeals {
 public:
  // `texts` are NAME=VALUE as read_conditions takes them, where the value 'random' draws. Rows of
  // open.utterance_rows are dealt in turn too. The plan says how many pairs there are, from which
  // seeds; where guidance is a range, each has a weight of its own.
  ConditionDeals(const OpenModel& open, const std::vector<std::string>& texts,
                 const PairPlan& plan);

  // How conditions are chosen, in words.
  std::string policy() const;
  // Those of pairs begin ... end - 1.
  Conditions of(Split split, int64_t begin, int64_t end) const;
  // All rows that are dealt, for guided(): whether any condition is given at all.
  Conditions rows() const;

 private:
  // One condition of all pairs: entries of `rows`, drawn where there are draws, otherwise in turn.
  struct Deal {
    torch::Tensor rows;
    std::map<Split, torch::Tensor> draws;  // which row each pair of the split has
    std::string policy;                    // the same in words

    torch::Tensor of(Split split, int64_t begin, int64_t end) const;
  };

  static Deal random_classes(const ConditionCard& condition, uint32_t stream, const PairPlan& plan);
  static Deal without_value(const OpenModel& open, const ConditionCard& condition);

  std::map<std::string, Deal> deals_;
  std::optional<GuidanceRange> guidance_;
  std::map<Split, int64_t> seeds_;
};

}  // namespace bespoke
