#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/distill/distill.h"
#include "bespoke/jobs/distill_job.h"
#include "bespoke/jobs/execution.h"
#include "bespoke/jobs/feature_choice.h"
#include "bespoke/jobs/open_model.h"
#include "bespoke/jobs/pair_maker.h"

namespace bespoke {

// What a distillation learns from.
struct TrainingChoice {
  std::string pairs;                    // folder of them; empty: made now
  std::vector<std::string> conditions;  // of pairs made now, as ConditionDeals takes them
  // The first training pairs; 0: all of the folder, otherwise 96, or as many as calls pay for.
  int64_t samples = 0;
  std::optional<double> tolerance = std::nullopt;  // of pairs made now; none: as is usual
};

// A job whose solvers are to be left in a folder.
struct DistillationRequest {
  DistillJob job;                        // which solvers to find, and how
  TrainingChoice training;               // what they learn from
  std::optional<OpenFeatures> features;  // whose statistics are matched
  std::filesystem::path folder;  // of solvers, checkpoints and logs; made where it is missing
  bool resume = false;           // goes on with what the folder has
  std::string command;           // that asked for it, as solver files keep it
};

// What a distillation tells while it goes on, each null where nobody listens. `what` says which
// one, "bns 8 NFE".
struct DistillationEvents {
  // Pairs were made in a folder for it.
  std::function<void(const PairPlan& plan, const PairReport& report,
                     const std::filesystem::path& folder)>
      on_pairs = nullptr;
  // Where it starts from, after the screening of starts: a solver that can be used already.
  std::function<void(const std::string& what, const StartState& start, const Counts& screening,
                     const SolverShape& shape)>
      on_start = nullptr;
  // After an iteration, with the fraction done; says whether to go on.
  std::function<Verdict(const std::string& what, const DistillProgress& info, double done)>
      on_iteration = nullptr;
};

// The solver of one number of evaluations, with what its summary.json says.
struct DistilledSolver {
  nlohmann::json summary;  // how it was found and how good it is, as solver files keep it
  NsSolver solver;         // the best that was found
};

// What a distillation made.
struct DistillationResult {
  std::vector<DistilledSolver> solvers;     // in the order of the job's nfes
  std::filesystem::path file;               // which has all of them
  int64_t training_pairs = 0;               // those learnt from, without broken ones
  std::optional<int64_t> validation_pairs;  // none: it was measured on the training pairs
};

// "10 NFE (16 network calls, ...)" of a solver with built-in guidance.
std::string evaluations_text(const SolverShape& shape);

// Runs all distillations of a job, as `bespoke distill` does. Every mistake in the request is found
// before pairs are made or the folder is touched.
DistillationResult run_distillation(const DistillationRequest& request, const OpenModel& open,
                                    const Execution& execution,
                                    const DistillationEvents& events = {});

}  // namespace bespoke
