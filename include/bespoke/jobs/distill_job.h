#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bespoke/distill/family.h"
#include "bespoke/jobs/execution.h"
#include "bespoke/jobs/open_model.h"
#include "bespoke/measure/features.h"
#include "bespoke/recipe/distill_model.h"

namespace bespoke {

// What a distillation of a model is to find, and how: with the model and its pairs, all that
// decides the result. `bespoke distill` fills one in, its run folder keeps it, and a run goes on
// only with the same. The defaults find a solver of 8 evaluations.
struct DistillJob {
  // What to make.
  std::vector<int> nfes = {8};  // rising; with network_calls one, or 0: as many as does best
  int network_calls = 0;        // of a solver with built-in guidance; 0: of an ordinary one
  std::string family = "bns";   // bns-history:K, times:METHOD, bst, bst-rk1 or bst-rk2
  bool unit_start_scale = false;
  TimeRounding times;
  bool of_decoded = false;  // whether errors are of what samples decode to
  Match match = Match::automatic;
  double match_weight = 0;    // 0: usual
  int64_t match_samples = 0;  // 0: as many as the features need and most_calls pays for
  std::string match_groups;   // condition whose classes are matched each apart; empty: all together

  // From what.
  std::vector<std::string> starts;  // names of solvers, as everywhere; none: the library's choice

  // How much to spend; 0 is usual.
  Method method = Method::automatic;
  DirectOptions direct;
  int64_t iterations = 0, batch = 0, most_calls = 0;

  // Throws a usage error where things do not go together, whatever the model.
  void validate() const;
};

// Every field, by its name in DistillJob. What was written reads back as it was; bad input for a
// field that is missing, unknown or of another type.
nlohmann::json to_json(const DistillJob& job);
DistillJob parse_distill_job(const nlohmann::json& json, const std::string& source);

// Whether any of its solvers has its statistics matched, of the features of a network or, where none
// is given, of plain numbers of a sample.
bool matches_statistics(const DistillJob& job, bool has_features);

// Features whose statistics are matched, and how many there are of a sample; null: none are given.
struct MatchedFeatures {
  std::shared_ptr<const FeatureExtractor> extractor;
  int64_t dimension = 0;
};

// The options of one of its distillations, that of `nfe`, with every mistake in them found. The
// result refers to `open`. execution.on_note is told where a start was made for another field.
ModelDistillOptions distill_options(const DistillJob& job, const OpenModel& open,
                                    const MatchedFeatures& features, int nfe,
                                    const Execution& execution);

}  // namespace bespoke
