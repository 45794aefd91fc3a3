#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bespoke/model/model.h"

namespace bespoke {

// The flags of every command that runs a model.
struct ModelOptions {
  std::string model = "analytic:mixture";
  std::string schedule, prediction;  // of an analytic model; a card says its own
  std::string dtype = "fp32";
  std::string device = "auto";
  std::vector<std::string> conditions;  // NAME=LIST
  double guidance = 0;
  int64_t count = 0;  // 0: 64, or as many as the noise file has
  int64_t batch = 64;
  int64_t seed = 0;
  std::string noise;  // a file to start from
  int threads = 0;

  void add_to(CLI::App& command);
};

// A model with everything that is needed to start from noise.
struct LoadedModel {
  ModelPtr model;         // guided, where guidance was asked for
  Conditions conditions;  // of all samples
  torch::Tensor noise;    // [count, ...], in the state's type, on the model's device
  std::string title;      // what figures printed about it are of
};

// Checks all of the options, sets the number of threads and draws the noise.
LoadedModel load_model(const ModelOptions& options);

// --schedule and --prediction alone, for commands that build solvers without a model.
void add_path_options(CLI::App& command, std::string& schedule, std::string& prediction);

}  // namespace bespoke
