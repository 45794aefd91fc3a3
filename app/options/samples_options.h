#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "options/model_options.h"

namespace bespoke {

// The options that say which samples: their noise and their conditions.
struct SamplesOptions {
  std::vector<std::string> conditions;  // NAME=VALUE
  int64_t count = 0;                    // 0: 64, or as many as --seeds or --noise has
  int64_t seed = 0;
  std::string seeds;  // a list: sample i is the first of seed seeds[i]
  std::string noise;  // a file of it

  void add_to(CLI::App& command);
  // --seeds, a seed for each sample.
  void add_seeds_to(CLI::App& command);
};

// The samples chosen: their noise and all that decides them.
struct ChosenSamples {
  ModelPtr model;                   // guided, where guidance was asked for
  torch::Tensor noise;              // [count, ...], in the state's type, on the model's device
  Conditions conditions;            // of all samples, with their weights where guidance is a range
  std::string title;                // what figures printed about them are of
  std::vector<std::string> labels;  // one per sample, for file names: its seed or number
  // One per sample of a model that is told what to draw, in the words it knows; none otherwise.
  std::vector<std::string> prompts;

  int64_t count() const { return noise.size(0); }
};

// Checks the options against the model, draws or reads the noise and the conditions.
ChosenSamples choose_samples(const OpenModel& open, const SamplesOptions& options);

}  // namespace bespoke
