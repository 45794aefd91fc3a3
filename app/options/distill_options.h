#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/recipe/distill_model.h"
#include "options/feature_options.h"
#include "options/model_options.h"

namespace bespoke {

constexpr char kAuto[] = "auto";  // let the program choose

// The options of `bespoke distill`, as typed.
struct DistillCommandOptions {
  ModelOptions model;
  std::string pairs, output;
  std::vector<std::string> conditions;  // of the pairs, where they are made here
  std::string nfe;                      // empty: 8, or with --network-calls as many as does best
  int network_calls = 0;                // of a solver that guides itself; 0: an ordinary one
  std::string family = "bns", init = kAuto, method = kAuto, sigma_0 = "1";
  std::string start_scale = "free", times = "free";  // constraints
  std::string direct;                                // KEY=VALUE,...
  std::string adam_decay = "polynomial", space = "sample";
  int64_t iterations = 0, batch = 0, most_forwards = 0, most_pairs = 0;
  std::optional<double> tolerance;  // of the pairs, where they are made here
  int64_t samples = 0;              // 0: 96, or as many as --calls pays for
  std::string match = kAuto;        // what solvers have in common with the model's samples
  FeatureNetworkOptions features;   // whose statistics are matched
  int64_t match_samples = 0;        // 0: as many as the features need and --calls pays for
  double match_weight = 0;
  std::string match_groups;  // a condition
  int64_t seed = 0;
  bool resume = false;

  void add_to(CLI::App& command);

  // As it is meant where nothing is typed: "8", or empty with --network-calls.
  std::string nfe_text() const;
  // The NFE asked for, in rising order, or 0 alone where --network-calls leaves it open; throws a
  // usage error where one makes no sense.
  std::vector<int64_t> nfes() const;
  // Whether a run makes samples to match the statistics of: not of a folder of pairs, nor where a
  // solver of none of these NFE has its statistics matched.
  bool makes_matching_samples() const;
  // Throws a usage error for numbers out of range.
  void check_numbers() const;
};

// What they mean for one of the NFE, with every mistake in them found. The result refers to `open`
// and to the features, where there are any.
ModelDistillOptions distill_options(const DistillCommandOptions& options, const OpenModel& open,
                                    const std::optional<OpenFeatures>& features, int nfe,
                                    bool decoded);

}  // namespace bespoke
