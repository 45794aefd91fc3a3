#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/model/card.h"
#include "teachers/audio_codec.h"
#include "teachers/autoencoder.h"
#include "teachers/trainer.h"
#include "teachers/transformer.h"
#include "teachers/unet.h"

namespace bespoke {

// The options of the commands of `bespoke-train` that learn from data. Which of them a command has
// depends on the network, which is its name.
struct TrainCommandOptions {
  explicit TrainCommandOptions(std::string network) : network(std::move(network)) {}

  std::vector<std::string> data;
  std::string latents;   // folder of an autoencoder or codec; none: the samples themselves
  std::string captions;  // none: the classes of the data
  bool infill = false;   // fills gaps in sounds
  std::string test;      // of a classifier, autoencoder or codec
  int64_t size = 0;      // as the data has it
  std::string network;
  TransformerOptions transformer;
  UNetOptions unet;
  AutoencoderOptions autoencoder;
  CodecOptions codec;
  std::string schedule = "fm-ot", prediction = "velocity";
  double class_dropout = 0.2;
  TrainOptions train;
  std::string device = "auto", dtype = "auto";
  int threads = 0;
  int64_t grid_every = 0;  // steps; 0: at the end only
  std::string name, licence, source;
  std::string output;
  bool resume = false;

  void add_to(CLI::App& command);
  // Everything that can be wrong before the data is read.
  void check() const;
  bool is_transformer() const { return network == "transformer"; }
  bool is_classifier() const { return network == "classifier"; }
  bool is_autoencoder() const { return network == "autoencoder"; }
  bool is_codec() const { return network == "audio-codec"; }
  bool is_teacher() const { return !is_classifier() && !is_autoencoder() && !is_codec(); }
  // What they say of the result: all but the precision, which the device decides too.
  nlohmann::json resolved() const;
};

// What the card of the trained model will say.
ModelCard card_to_train(const TrainCommandOptions& options, int sample_rate);

TeacherPtr make_teacher(const TrainCommandOptions& options, const NetworkShape& shape);

}  // namespace bespoke
