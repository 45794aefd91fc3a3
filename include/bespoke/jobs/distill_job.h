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
  // The evaluations of each solver that is wanted, rising. With network_calls one number, or 0 for
  // as many as do best.
  std::vector<int> nfes = {8};
  int network_calls = 0;       // of a solver with built-in guidance; 0: of an ordinary one
  std::string family = "bns";  // bns-history:K, times:METHOD, bst, bst-rk1 or bst-rk2
  // Whether solvers take the noise as it is, without a scale of their own; of bns and bns-history.
  bool unit_start_scale = false;
  TimeRounding times;       // how whoever runs the solvers rounds them; of bns and bns-history
  bool of_decoded = false;  // whether errors are of what samples decode to
  Match match = Match::automatic;  // what solvers are to have in common with the model's samples
  double match_weight = 0;         // 0: usual
  int64_t match_samples = 0;       // 0: as many as the features need and most_calls pays for
  std::string match_groups;  // condition whose classes are matched each apart; empty: all together

  std::vector<std::string> starts;  // names of solvers, as everywhere; none: the library's choice

  // How to find it, and how much to spend; 0 is usual.
  Method method = Method::automatic;
  DirectOptions direct;    // of the methods auto and direct; `batch` below goes before its own
  int64_t iterations = 0;  // at most; 0: the method's own number, see DistillOptions
  int64_t batch = 0;       // training samples of one iteration; 0: likewise
  // Calls of the model for each solver at most, for its samples, fits, training and measurements
  // together; 0: no limit.
  int64_t most_calls = 0;

  // Throws a usage error where things do not go together, whatever the model.
  void validate() const;
};

// Every field, by its name in DistillJob.
nlohmann::json to_json(const DistillJob& job);
// Reads back what to_json wrote, and validates it. Bad input for a field that is missing, unknown
// or of another type; `source` says in messages where the JSON is from.
DistillJob parse_distill_job(const nlohmann::json& json, const std::string& source);

// Whether any of its solvers has its statistics matched, of the features of a network or, where
// none is given, of plain numbers of a sample.
bool matches_statistics(const DistillJob& job, bool has_features);

// Features whose statistics are matched.
struct MatchedFeatures {
  std::shared_ptr<const FeatureExtractor> extractor;  // null: none are given
  int64_t dimension = 0;                              // features of a sample; 0 without any
};

// The options of one of its distillations, that of `nfe`, with every mistake in them found. The
// result refers to `open`. execution.on_note is told where a start was made for another field.
ModelDistillOptions distill_options(const DistillJob& job, const OpenModel& open,
                                    const MatchedFeatures& features, int nfe,
                                    const Execution& execution);

}  // namespace bespoke
