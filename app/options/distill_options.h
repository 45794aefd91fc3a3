#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/jobs/feature_choice.h"
#include "bespoke/jobs/run_distillation.h"
#include "options/model_options.h"

namespace bespoke {

constexpr char kAuto[] = "auto";  // let the program choose

// The options of `bespoke distill`, as typed.
struct DistillCommandOptions {
  ModelOptions model;
  TrainingChoice training;
  std::string output;
  std::string nfe;  // empty: 8, or with --network-calls as many as does best
  std::string init = kAuto, method = kAuto, match = kAuto, space = "sample";
  std::string start_scale = "free", times = "free";  // constraints
  std::string direct;                                // KEY=VALUE,...
  DistillJob numbers;                                // what is typed as it is
  FeatureChoice features;                            // whose statistics are matched
  bool resume = false;

  void add_to(CLI::App& command);

  // What they ask for, with every mistake in them found that can be found without the model; the
  // features are not opened yet.
  DistillationRequest request() const;

 private:
  DistillJob job() const;
};

}  // namespace bespoke
