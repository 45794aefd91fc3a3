#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"
#include "bespoke/model/network.h"
#include "bespoke/path/guidance_weight.h"
#include "bespoke/recipe/gapped_sounds.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

// Whether a card's network is tried on two samples as soon as it is loaded.
enum class NetworkTrial {
  warn,    // where it mixes the samples of a batch, which it may not
  insist,  // the same, and what it returns must be what the card says
  none,    // the command tries it by itself
};

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

// A model with what its card says of it.
struct OpenModel {
  ModelPtr model;      // unguided
  NetworkPtr network;  // null for an analytic model
  ModelCard card;      // of an analytic model: made up
  std::string name;    // as the user gave it
  GuidanceWeight guidance;
  DecoderPtr decoder;  // null unless the card has one
  EncoderPtr encoder;  // likewise
  // The sounds of --utterances, and the conditions they are, a row for each; null without.
  std::shared_ptr<const GappedSounds> utterances;
  Conditions utterance_rows;
  torch::Device device = torch::kCPU;
  std::string precision;  // --dtype
  torch::ScalarType dtype = torch::kFloat;

  bool is_tf32() const;
  // The state's type: float64 for float64 models, float32 for all others.
  torch::ScalarType state_dtype() const;
  // What solvers for it are made for.
  FieldDescription field() const;
  // What the model is and how its card reads it, for files that must not be used with another.
  // The first call reads and hashes the weights.
  const nlohmann::json& identity() const;
  // "name, vp path, noise prediction, guidance w = 2 (guidance_scale 3), fp32".
  std::string title() const;

 private:
  mutable std::optional<nlohmann::json> identity_;
};

// Checks all of the options, sets the number of threads and loads the model. Guidance is checked
// against the card here and applied by guided().
OpenModel open_model(const ModelOptions& options);

// The CPU threads LibTorch computes with; 0 for one a core.
void set_threads(int threads);

// A device by name: auto, cpu, cuda, cuda:N.
torch::Device parse_device(const std::string& name);

// The model with the guidance asked for, given these conditions.
ModelPtr guided(const OpenModel& open, const Conditions& conditions);

}  // namespace bespoke
