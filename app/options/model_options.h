#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "bespoke/jobs/open_model.h"

namespace bespoke {

// The options of every command that runs a model.
struct ModelOptions {
  std::string model = "analytic:mixture";
  std::string dtype = "fp32";
  std::string device = "auto";
  std::string guidance, guidance_scale;  // two ways to say one thing
  std::string guidance_interval;
  std::string utterances;  // folder of sounds with gaps, for a model that fills them
  int64_t batch = 64;
  int threads = 0;
  bool one_by_one = false;
  bool no_graphs = false;
  NetworkTrial trial = NetworkTrial::warn;  // no option of the user's

  void add_to(CLI::App& command);
  // --utterances, where a command takes the conditions of many samples.
  void add_utterances_to(CLI::App& command);
  // Only how it is run: --batch, --dtype, --device, --threads, --one-by-one, --no-graphs.
  void add_running_to(CLI::App& command);
};

// Opens the model that the options name, for the processes of this command; what there is to say of
// it goes to stderr.
OpenModel open_model(const ModelOptions& options);

}  // namespace bespoke
