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
  std::string name;
  int64_t classes = 0;  // values 0 ... classes - 1; 0 for a tensor
  int64_t null = -1;    // the class that stands for "no condition"; -1 if there is none

  // Of a tensor:
  std::vector<int64_t> shape;       // without the batch
  bool integer = false;             // int64, otherwise in the model's precision
  bool zero_null = false;           // "no condition" is all zeros
  std::filesystem::path null_file;  // or the tensor in this file
  // Of text, a tensor of so many tokens: the words it may have, as Vocabulary numbers them.
  std::vector<std::string> vocabulary;

  bool is_tensor() const { return classes == 0; }
  bool is_text() const { return !vocabulary.empty(); }
  bool has_null() const { return null >= 0 || zero_null || !null_file.empty(); }
};

// What turns a latent into an image or a sound: decoder(latent / scale + shift).
struct DecoderCard {
  std::filesystem::path weights;
  std::string weights_sha256;
  double scale = 1, shift = 0;
  std::vector<int64_t> sample_shape;  // of what comes out
  double least = -1, most = 1;        // its value range
};

// What turns a sound into a latent, of a model that fills gaps in sounds: latent =
// (encoder(sound) - shift) scale, with the decoder's numbers. Such a model has the conditions
// kVisible, the latent of what is heard, zero in the gap, and kKnown, 1 where it is heard.
struct EncoderCard {
  std::filesystem::path weights;
  std::string weights_sha256;
  int64_t margin = 0;  // frames on either side of a gap that the encoder sees the gap in
  double level = 0;    // root mean square that sounds are brought to; 0: they are left as they are
};
constexpr char kVisible[] = "visible", kKnown[] = "known";

// One of several tensors that a sample consists of, nodes and edges say. The numbers of all parts
// lie side by side in the one vector [batch, numbers] that solvers step with, in the order in which
// the network is given the parts and returns them.
struct SamplePart {
  std::string name;
  std::vector<int64_t> shape;  // without the batch

  int64_t size() const;
};
int64_t total_size(const std::vector<SamplePart>& parts);

// Which numbers of a sample count in errors: those where this condition is 1, or 0 if it is
// inverted, or where the tensor of this file is.
struct ErrorMaskCard {
  std::string condition;       // empty: the file
  bool inverted = false;       // "not NAME"
  std::filesystem::path file;  // resolved against the card's folder
};

// What the weights of a model may be: TorchScript, or a package that AOTInductor compiled.
constexpr char kScriptFormat[] = "torchscript", kPackageFormat[] = "aotinductor";

// model.json, beside the weights: what the network is and how it is called.
struct ModelCard {
  std::string name;
  std::string format;                 // kScriptFormat or kPackageFormat
  std::filesystem::path weights;      // resolved against the card's folder
  std::string weights_sha256;         // empty: not checked
  std::vector<int64_t> sample_shape;  // of parts: how many numbers they have together
  std::vector<SamplePart> parts;      // empty: a sample is one tensor
  double least = -1, most = 1;        // value range of the data
  Prediction prediction = Prediction::velocity;
  SchedulePtr schedule;
  TimeCard time;
  InputScaling input_scaling = InputScaling::none;
  std::optional<Clip> clip;    // what the model's sampler does to the data prediction
  int64_t extra_channels = 0;  // that the network returns behind the prediction's
  bool channels_last = false;  // the network is called on [batch, ..., channels]
  std::vector<ConditionCard> conditions;
  std::map<std::string, ErrorMaskCard> error_masks;  // by part, "" of one tensor; none: all counts
  std::optional<DecoderCard> decoder;                // of a latent model
  std::optional<EncoderCard> encoder;                // of a model that fills gaps
  int64_t sample_rate = 0;                           // of audio, in Hz; 0 for everything else
  int64_t steps = 0;  // of DDIM that a distilled model is for; 0: it is a field
  std::string licence, source;
};

// Checks every key; a mistake is one sentence that names the key.
ModelCard parse_model_card(const std::string& text, const std::filesystem::path& path);
ModelCard read_model_card(const std::filesystem::path& path);

// What the network returns for a sample: the sizes behind the batch.
std::vector<int64_t> returned_shape(const ModelCard& card);

// What the keys allow alone but not together: empty, or the key and what is wrong with it.
std::string combination_problem(const ModelCard& card);

}  // namespace bespoke
