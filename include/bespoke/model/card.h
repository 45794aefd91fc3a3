#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/path/clip.h"
#include "bespoke/path/network_input.h"
#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"

namespace bespoke {

// One argument of the network after x and t: an integer or a tensor per sample.
struct ConditionCard {
  std::string name;     // as commands and conditions call it
  int64_t classes = 0;  // values 0 ... classes - 1; 0 for a tensor
  int64_t null = -1;    // the class that stands for "no condition"; -1 if there is none

  // These are for a tensor:
  std::vector<int64_t> shape;       // without the batch
  bool integer = false;             // int64, otherwise in the model's precision
  bool zero_null = false;           // "no condition" is all zeros
  std::filesystem::path null_file;  // or the tensor in this file
  // For text, which is a tensor of so many tokens: the words it may have, as Vocabulary numbers
  // them.
  std::vector<std::string> vocabulary;

  // Whether each sample has a tensor, not a class.
  bool is_tensor() const { return classes == 0; }
  // Whether the tensor is the tokens of a text.
  bool is_text() const { return !vocabulary.empty(); }
  // Whether there is a value for "no condition".
  bool has_null() const { return null >= 0 || zero_null || !null_file.empty(); }
};

// What turns a latent into an image or a sound: decoder(latent / scale + shift).
struct DecoderCard {
  std::filesystem::path weights;      // resolved against the card's folder
  std::string weights_sha256;         // empty: not checked
  double scale = 1;                   // what a latent is divided by
  double shift = 0;                   // what is added to it then
  std::vector<int64_t> sample_shape;  // of the decoded sample, without the batch
  double least = -1;                  // its least value
  double most = 1;                    // its greatest value
};

// What turns a sound into a latent for a model that fills gaps in sounds: latent =
// (encoder(sound) - shift) scale, with the decoder's numbers. Such a model has the conditions
// kVisible, the latent of what is heard, zero in the gap, and kKnown, 1 where it is heard.
struct EncoderCard {
  std::filesystem::path weights;  // resolved against the card's folder
  std::string weights_sha256;     // empty: not checked
  int64_t margin = 0;             // frames on either side of a gap that the encoder sees the gap in
  double level = 0;  // root mean square that sounds are brought to; 0: they are left as they are
};
// The name of the condition that is the latent of what is heard.
constexpr char kVisible[] = "visible";
// The name of the condition that is 1 where a sound is heard.
constexpr char kKnown[] = "known";

// One of several tensors that a sample consists of, nodes and edges say. The numbers of all parts
// lie side by side in the one vector [batch, numbers] that solvers step with, in the order in which
// the network is given the parts and returns them.
struct SamplePart {
  std::string name;            // as error masks and messages call it
  std::vector<int64_t> shape;  // without the batch

  // How many numbers the part has.
  int64_t size() const;
};
// How many numbers all parts have together.
int64_t total_size(const std::vector<SamplePart>& parts);

// Which numbers of a sample count in errors: those where this condition is 1, or 0 if it is
// inverted, or where the tensor of this file is.
struct ErrorMaskCard {
  std::string condition;       // empty: the file
  bool inverted = false;       // "not NAME"
  std::filesystem::path file;  // resolved against the card's folder
};

// The format of weights that are a TorchScript module.
constexpr char kScriptFormat[] = "torchscript";
// The format of weights that are a package compiled by AOTInductor.
constexpr char kPackageFormat[] = "aotinductor";

// model.json, beside the weights: what the network is and how it is called.
struct ModelCard {
  std::string name;                                 // as reports show it
  std::string format;                               // kScriptFormat or kPackageFormat
  std::filesystem::path weights;                    // resolved against the card's folder
  std::string weights_sha256;                       // empty: not checked
  std::vector<int64_t> sample_shape;                // of parts: how many numbers they have together
  std::vector<SamplePart> parts;                    // empty: a sample is one tensor
  double least = -1;                                // the least value of the data
  double most = 1;                                  // the greatest value of the data
  Prediction prediction = Prediction::velocity;     // what the network returns
  SchedulePtr schedule;                             // its path from noise to data
  TimeCard time;                                    // how it counts time
  InputScaling input_scaling = InputScaling::none;  // what its input is multiplied by
  std::optional<Clip> clip;               // what the model's sampler does to the data prediction
  int64_t extra_channels = 0;             // that the network returns behind the prediction's
  bool channels_last = false;             // the network is called on [batch, ..., channels]
  std::vector<ConditionCard> conditions;  // in the order of the arguments
  std::map<std::string, ErrorMaskCard> error_masks;  // by part, "" of one tensor; none: all counts
  std::optional<DecoderCard> decoder;                // of a latent model
  std::optional<EncoderCard> encoder;                // of a model that fills gaps
  int64_t sample_rate = 0;                           // of audio, in Hz; 0 for everything else
  int64_t steps = 0;    // of DDIM that a distilled model is for; 0: it is a field
  std::string licence;  // of the weights
  std::string source;   // where the weights came from
};

// Reads the text of a card and checks every key; a mistake is one sentence that names the key.
ModelCard parse_model_card(const std::string& text, const std::filesystem::path& path);
// The same for a file.
ModelCard read_model_card(const std::filesystem::path& path);

// The shape of what the network returns for a sample, without the batch.
std::vector<int64_t> returned_shape(const ModelCard& card);

// The first key that is right alone but not with the others, and what is wrong with it; empty where
// there is none.
std::string combination_problem(const ModelCard& card);

}  // namespace bespoke
