#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bespoke/base/team.h"
#include "bespoke/jobs/execution.h"
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
  none,    // the caller tries it
};

// Which model, and how it is to run.
struct ModelRequest {
  std::string name = "analytic:mixture";  // as the user gave it
  std::filesystem::path card;             // where the name is no analytic model
  std::string precision = "fp32";         // or tf32, fp64, bf16, fp16
  std::string device = "auto";            // or cpu, cuda, cuda:N
  GuidanceWeight guidance;                // w of classifier-free guidance; by default none
  std::string utterances;  // folder of sounds with gaps, for a model that fills them; empty: none
  int64_t batch = 64;      // samples computed at once
  int threads = 0;         // 0: one a core
  // Whether the network is called on each sample alone, as in NetworkOptions.
  bool one_by_one = false;
  bool graphs = true;  // whether calls on CUDA may be replayed as graphs, likewise
  NetworkTrial trial = NetworkTrial::warn;  // of the network, once it is loaded
  Team* team = &alone();  // whose members on one machine divide its cores and devices
  // Told what a user should know of the model, a sentence without an end; null where nobody
  // listens.
  std::function<void(const std::string& note)> on_note = {};
};

// A model with what its card says of it.
struct OpenModel {
  ModelPtr model;           // unguided
  NetworkPtr network;       // null for an analytic model
  ModelCard card;           // of an analytic model: made up
  std::string name;         // as the user gave it
  GuidanceWeight guidance;  // as it was asked for; guided() applies it
  DecoderPtr decoder;       // null unless the card has one
  EncoderPtr encoder;       // likewise
  // The sounds of --utterances; null without.
  std::shared_ptr<const GappedSounds> utterances;
  Conditions utterance_rows;  // what these are as conditions, a row for each; empty without
  torch::Device device = torch::kCPU;       // where it computes; of an analytic model the CPU
  std::string precision;                    // as it was asked for
  torch::ScalarType dtype = torch::kFloat;  // that the model computes in; of tf32, float32

  // Whether float32 products may be computed in TF32, with 10 bits after the point.
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

// Checks all that is asked for, sets the number of threads and loads the model. Guidance is checked
// against the card here and applied by guided().
OpenModel open_model(const ModelRequest& request);

// Where its jobs run: on the model's device, with states of its type.
Execution execution_on(const OpenModel& open);

// The CPU threads LibTorch computes with; 0 for one a core, of those that the members of a team on
// one machine have each.
void set_threads(int threads, const Team& team = alone());

// A device by name: auto, cpu, cuda, cuda:N; auto and cuda are another for each member of a team on
// one machine.
torch::Device parse_device(const std::string& name, const Team& team = alone());

// The model with the guidance asked for, given these conditions.
ModelPtr guided(const OpenModel& open, const Conditions& conditions);

// Where the values of samples lie, as the card says.
struct ValueRange {
  double least;  // its lower end
  double most;   // its upper end
};
// That of the samples a model draws, or of what they decode to, for which it must have a decoder.
ValueRange value_range(const OpenModel& open, bool decoded);

// Throws a usage error where a model without a decoder is to be looked at decoded.
void check_decoded_space(const OpenModel& open, bool decoded);

// Their peak-to-peak range, which PSNR is relative to.
inline double value_peak(const OpenModel& open, bool decoded) {
  const ValueRange range = value_range(open, decoded);
  return range.most - range.least;
}

}  // namespace bespoke
