#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/jobs/distill_job.h"
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
  std::string init = kAuto, method = kAuto, match = kAuto, space = "sample";
  std::string start_scale = "free", times = "free";  // constraints
  std::string direct;                                // KEY=VALUE,...
  DistillJob numbers;                                // what is typed as it is
  std::optional<double> tolerance;                   // of the pairs, where they are made here
  int64_t samples = 0;             // 0: all of --pairs; otherwise 96, or what --calls pays for
  FeatureNetworkOptions features;  // whose statistics are matched
  bool resume = false;

  void add_to(CLI::App& command);

  // What they ask for, with every mistake in them found that can be found without the model.
  DistillJob job() const;
  // Whether a solver of any of these NFE has its statistics matched.
  bool matches_statistics(const DistillJob& job) const;
  // Whether a run makes samples for that: not where there is a folder of pairs.
  bool makes_matching_samples(const DistillJob& job) const;
};

}  // namespace bespoke
