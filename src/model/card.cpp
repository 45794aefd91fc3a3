#include "bespoke/model/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/sample_rate.h"
#include "bespoke/base/text.h"
#include "bespoke/model/vocabulary.h"
#include "bespoke/path/guidance_weight.h"

namespace bespoke {

using namespace detail;

namespace {

using nlohmann::json;

constexpr int64_t kLargest = int64_t{1} << 40;

std::vector<int64_t> read_shape(const json& shape, const std::string& where) {
  require(shape.is_array() && !shape.empty(), where,
          "must be a list of sizes without the batch, e.g. [3, 32, 32]");
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < shape.size(); ++i) {
    sizes.push_back(whole_number(shape[i], fmt::format("{}[{}]", where, i), 1, kLargest));
  }
  return sizes;
}

ConditionCard read_class_condition(const json& condition, const std::string& where) {
  check_keys(condition, {"name", "classes"}, {"null"}, where);
  ConditionCard card;
  card.classes = whole_number(condition["classes"], where + ".classes", 1, kLargest);
  if (condition.contains("null")) {
    card.null = whole_number(condition["null"], where + ".null", 0, kLargest);
    require(card.classes > 1 || card.null != 0, where + ".null",
            "is the only class; a condition needs one that is not null");
  }
  return card;
}

std::vector<std::string> read_vocabulary(const json& list, const std::string& where) {
  require(list.is_array() && !list.empty(), where, "must be a list of words");
  std::vector<std::string> words;
  for (const auto& word : list) words.push_back(text_value(word, where));
  return Vocabulary(words).words();
}

ConditionCard read_tensor_condition(const json& condition, const std::string& where,
                                    const std::filesystem::path& folder) {
  check_keys(condition, {"name", "shape"}, {"dtype", "null", "vocabulary"}, where);
  ConditionCard card;
  card.shape = read_shape(condition["shape"], where + ".shape");
  if (condition.contains("dtype")) {
    const std::vector<std::string> names = {"float32", "int64"};
    const std::string name = text_value(condition["dtype"], where + ".dtype");
    card.integer = choice(names, name, "dtype", where + ".dtype") == 1;
  }
  if (condition.contains("null")) {
    const std::string null = text_value(condition["null"], where + ".null");
    card.zero_null = null == "zeros";
    if (!card.zero_null) card.null_file = folder / null;
  }
  if (condition.contains("vocabulary")) {
    card.vocabulary = read_vocabulary(condition["vocabulary"], where + ".vocabulary");
    require(card.integer && card.shape.size() == 1, where + ".vocabulary",
            "is of a list of tokens: \"dtype\": \"int64\" and one size in \"shape\"");
  }
  return card;
}

ConditionCard read_condition(const json& condition, const std::string& where,
                             const std::filesystem::path& folder) {
  require(condition.is_object() && condition.contains("name"), where, "must have a \"name\"");
  require(condition.contains("classes") != condition.contains("shape"), where,
          "must have either \"classes\", of an integer, or \"shape\", of a tensor");
  ConditionCard card = condition.contains("classes")
                           ? read_class_condition(condition, where)
                           : read_tensor_condition(condition, where, folder);
  card.name = text_value(condition["name"], where + ".name");
  require(!card.name.empty() && card.name.find('=') == std::string::npos, where + ".name",
          "must not be empty or hold '=', which ends it where a condition is given as NAME=VALUE");
  const bool typed =
      card.name == printable(card.name) && card.name.front() != ' ' && card.name.back() != ' ';
  require(typed, where + ".name",
          fmt::format("must not begin or end with a blank or hold characters that are not seen, "
                      "found \"{}\"",
                      printable(card.name)));
  return card;
}

// The parts of a sample in the order of the card, or none where it is one tensor.
std::vector<SamplePart> read_parts(const nlohmann::ordered_json& document,
                                   const std::string& where) {
  std::vector<SamplePart> parts;
  if (!document.is_object()) return parts;
  for (const auto& [name, shape] : document.items()) {
    require(!name.empty() && name == printable(name) && name != "noise", where,
            fmt::format("a part cannot be called \"{}\"", printable(name)));
    parts.push_back({name, read_shape(json(shape), where + "." + name)});
  }
  require(!parts.empty(), where, "must have at least one part, e.g. {\"nodes\": [9, 4]}");
  require(total_size(parts) <= kLargest, where, "is too large");
  return parts;
}

ErrorMaskCard read_error_mask(const json& given, const std::string& where, const ModelCard& card,
                              const std::filesystem::path& folder) {
  constexpr char kNot[] = "not ", kFile[] = ".safetensors";
  std::string name = text_value(given, where);
  ErrorMaskCard mask;
  if (name.find(kFile) != std::string::npos) {
    mask.file = folder / name;
    return mask;
  }
  mask.inverted = name.rfind(kNot, 0) == 0;
  if (mask.inverted) name = name.substr(sizeof(kNot) - 1);
  const bool is_tensor_condition =
      std::any_of(card.conditions.begin(), card.conditions.end(),
                  [&](const ConditionCard& one) { return one.name == name && one.is_tensor(); });
  require(is_tensor_condition, where,
          fmt::format("must be a condition that is a tensor, \"not\" and one, or a .safetensors "
                      "file, found \"{}\"",
                      printable(name)));
  mask.condition = name;
  return mask;
}

void read_error_masks(const json& document, const std::string& source,
                      const std::filesystem::path& folder, ModelCard& card) {
  if (!document.contains("error_mask")) return;
  const json& given = document["error_mask"];
  const std::string where = source + ": error_mask";
  if (card.parts.empty()) {
    card.error_masks[""] = read_error_mask(given, where, card, folder);
    return;
  }
  require(given.is_object() && !given.empty(), where,
          "of samples of several parts is an object, {\"PART\": \"CONDITION\"}");
  for (const auto& [name, mask] : given.items()) {
    const bool is_part =
        std::any_of(card.parts.begin(), card.parts.end(),
                    [&, part = name](const auto& one) { return one.name == part; });
    require(is_part, where, fmt::format("\"{}\" is no part of sample_shape", printable(name)));
    card.error_masks[name] = read_error_mask(mask, where + "." + name, card, folder);
  }
}

std::vector<ConditionCard> read_conditions(const json& list, const std::string& where,
                                           const std::filesystem::path& folder) {
  require(list.is_array(), where, "must be a list");
  std::vector<ConditionCard> cards;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", where, i);
    cards.push_back(read_condition(list[i], place, folder));
    require(cards[i].name != kGuidanceCondition, place,
            fmt::format("\"{}\" is what a sample's guidance is called; choose another name",
                        kGuidanceCondition));
    for (size_t j = 0; j < i; ++j) {
      require(cards[j].name != cards[i].name, place, "has the name of an earlier condition");
    }
  }
  return cards;
}

void read_value_range(const json& value, const std::string& where, double& least, double& most) {
  const auto range = number_list(value, where, 2);
  require(range[0] < range[1], where, "must be [least, most]");
  least = range[0];
  most = range[1];
}

DecoderCard read_decoder(const json& decoder, const std::string& where,
                         const std::filesystem::path& folder) {
  check_keys(decoder, {"weights", "sample_shape"},
             {"weights_sha256", "scale", "shift", "value_range"}, where);
  DecoderCard card;
  card.weights = folder / text_value(decoder["weights"], where + ".weights");
  card.sample_shape = read_shape(decoder["sample_shape"], where + ".sample_shape");
  if (decoder.contains("weights_sha256")) {
    card.weights_sha256 = text_value(decoder["weights_sha256"], where + ".weights_sha256");
  }
  // Latents have about unit deviation, and decoders want them some ten or a hundred times as large
  // or small: farther off there is a mistake.
  constexpr double kMost = 1e6;
  if (decoder.contains("scale")) card.scale = number(decoder["scale"], where + ".scale");
  require(std::abs(card.scale) >= 1 / kMost && std::abs(card.scale) <= kMost, where + ".scale",
          fmt::format("must be from {} to {} in size, found {}", 1 / kMost, kMost, card.scale));
  if (decoder.contains("shift")) card.shift = number(decoder["shift"], where + ".shift");
  require(std::abs(card.shift) <= kMost, where + ".shift",
          fmt::format("must be at most {} in size, found {}", kMost, card.shift));
  if (decoder.contains("value_range")) {
    read_value_range(decoder["value_range"], where + ".value_range", card.least, card.most);
  }
  return card;
}

EncoderCard read_encoder(const json& encoder, const std::string& where,
                         const std::filesystem::path& folder) {
  check_keys(encoder, {"weights"}, {"weights_sha256", "margin", "level"}, where);
  EncoderCard card;
  card.weights = folder / text_value(encoder["weights"], where + ".weights");
  if (encoder.contains("weights_sha256")) {
    card.weights_sha256 = text_value(encoder["weights_sha256"], where + ".weights_sha256");
  }
  if (encoder.contains("margin")) {
    card.margin = whole_number(encoder["margin"], where + ".margin", 0, kLargest);
  }
  if (encoder.contains("level")) card.level = number(encoder["level"], where + ".level");
  require(card.level >= 0, where + ".level", "must not be negative");
  return card;
}

// What a model that fills gaps must have beside its encoder: empty, or what is wrong.
std::string encoder_problem(const ModelCard& card) {
  const bool sounds = card.sample_rate > 0 && card.decoder && card.sample_shape.size() == 2;
  if (!sounds || card.decoder->sample_shape.size() != 2 || card.decoder->sample_shape[0] != 1 ||
      card.decoder->sample_shape[1] % card.sample_shape[1] != 0) {
    return "encoder: is of a model of sounds, which has a \"sample_rate\", a \"sample_shape\" of "
           "[channels, frames] and a \"decoder\" whose \"sample_shape\" is [1, length], with "
           "frames of one length";
  }
  const auto has = [&](const std::string& name, const std::vector<int64_t>& shape) {
    return std::any_of(card.conditions.begin(), card.conditions.end(), [&](const auto& condition) {
      return condition.name == name && condition.shape == shape && !condition.integer;
    });
  };
  if (!has(kVisible, card.sample_shape) || !has(kKnown, {1, card.sample_shape[1]})) {
    return fmt::format(
        "encoder: a model that fills gaps has the conditions \"{}\" of shape [{}, {}] and \"{}\" "
        "of shape [1, {}]",
        kVisible, card.sample_shape[0], card.sample_shape[1], kKnown, card.sample_shape[1]);
  }
  return "";
}

// How the network's samples and outputs differ from what its sampler steps with.
void read_calls(const json& document, const std::string& source, ModelCard& card) {
  if (document.contains("clip")) {
    card.clip = clip_from_json(document["clip"], source + ": clip", card.least, card.most);
  }
  if (document.contains("extra_channels")) {
    card.extra_channels =
        whole_number(document["extra_channels"], source + ": extra_channels", 1, kLargest);
  }
  if (document.contains("layout")) {
    const std::string name = text_value(document["layout"], source + ": layout");
    card.channels_last = choice({"channels-first", "channels-last"}, name, "layout", source) == 1;
    require(!card.channels_last || card.sample_shape.size() > 1, source + ": layout",
            "is of samples that have channels and at least one other axis");
  }
}

// `text` is what the document was read from: it has the order of a sample's parts.
ModelCard read_card(const json& document, const std::string& text,
                    const std::filesystem::path& path) {
  const std::string source = path.string();
  check_keys(document, {"format", "weights", "sample_shape", "prediction", "schedule", "time"},
             {"name", "weights_sha256", "value_range", "conditions", "decoder", "encoder",
              "sample_rate", "steps", "input_scaling", "clip", "extra_channels", "layout",
              "error_mask", "licence", "source"},
             source);
  const auto folder = path.parent_path();
  ModelCard card;
  card.format = text_value(document["format"], source + ": format");
  card.weights = folder / text_value(document["weights"], source + ": weights");
  card.parts =
      read_parts(nlohmann::ordered_json::parse(text)["sample_shape"], source + ": sample_shape");
  card.sample_shape = card.parts.empty()
                          ? read_shape(document["sample_shape"], source + ": sample_shape")
                          : std::vector<int64_t>{total_size(card.parts)};
  card.prediction = read_checked(source, [&] {
    return parse_prediction(text_value(document["prediction"], source + ": prediction"));
  });
  card.schedule = schedule_from_json(document["schedule"]);
  card.time = time_card_from_json(document["time"], source + ": time");
  const auto optional_text = [&](const char* key) {
    return document.contains(key) ? text_value(document[key], source + ": " + key) : std::string();
  };
  card.name = document.contains("name") ? optional_text("name") : card.weights.stem().string();
  card.weights_sha256 = optional_text("weights_sha256");
  card.licence = optional_text("licence");
  card.source = optional_text("source");
  if (document.contains("value_range")) {
    read_value_range(document["value_range"], source + ": value_range", card.least, card.most);
  }
  if (document.contains("conditions")) {
    card.conditions = read_conditions(document["conditions"], source + ": conditions", folder);
  }
  if (document.contains("decoder")) {
    card.decoder = read_decoder(document["decoder"], source + ": decoder", folder);
  }
  if (document.contains("encoder")) {
    card.encoder = read_encoder(document["encoder"], source + ": encoder", folder);
  }
  if (document.contains("sample_rate")) {
    card.sample_rate = whole_number(document["sample_rate"], source + ": sample_rate",
                                    kLeastSampleRate, kMostSampleRate);
  }
  if (document.contains("steps")) {
    card.steps = whole_number(document["steps"], source + ": steps", 1, kLargest);
  }
  if (document.contains("input_scaling")) {
    const std::string name = text_value(document["input_scaling"], source + ": input_scaling");
    card.input_scaling = static_cast<InputScaling>(
        choice({"none", "edm"}, name, "input_scaling", source + ": input_scaling"));
  }
  read_calls(document, source, card);
  read_error_masks(document, source, folder, card);
  const std::string problem = combination_problem(card);
  if (!problem.empty()) throw bad_input("{}: {}", source, problem);
  return card;
}

}  // namespace

int64_t SamplePart::size() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t total_size(const std::vector<SamplePart>& parts) {
  int64_t size = 0;
  for (const SamplePart& part : parts) size += part.size();
  return size;
}

std::vector<int64_t> returned_shape(const ModelCard& card) {
  std::vector<int64_t> shape = card.sample_shape;
  shape.front() += card.extra_channels;
  if (card.channels_last) std::rotate(shape.begin(), shape.begin() + 1, shape.end());
  return shape;
}

std::string combination_problem(const ModelCard& card) {
  const auto convention = card.time.convention;
  const bool by_sigma =
      convention == TimeConvention::sigma || convention == TimeConvention::log_sigma;
  if (by_sigma && card.schedule->alpha(0) == 0) {
    return fmt::format(
        "time.convention: sigma / alpha is infinite at the noise of the schedule \"{}\"; a network "
        "that is given sigma has a schedule with alpha > 0, such as edm or vp",
        card.schedule->name());
  }
  const int64_t schedule_levels = discrete_levels(*card.schedule);
  const int64_t steps = schedule_levels > 0 ? schedule_levels : card.time.levels;
  if (card.time.levels != 0 && card.time.levels != steps) {
    return fmt::format("time.levels: is {}, the schedule has {} levels", card.time.levels, steps);
  }
  const bool told_apart = card.channels_last || card.extra_channels > 0 || card.decoder ||
                          card.encoder || card.sample_rate > 0 || card.format == kPackageFormat;
  if (!card.parts.empty() && told_apart) {
    return "sample_shape: samples of several parts are those of a TorchScript model, without "
           "layout, extra_channels, decoder, encoder and sample_rate";
  }
  const auto& output = card.decoder ? card.decoder->sample_shape : card.sample_shape;
  if (card.sample_rate > 0 && output.size() > 2) {
    return "sample_rate: is for audio, whose samples are [length] or [channels, length]";
  }
  return card.encoder ? encoder_problem(card) : "";
}

ModelCard parse_model_card(const std::string& text, const std::filesystem::path& path) {
  const std::string source = path.string();
  require(text.rfind("PK", 0) != 0, source,
          "looks like weights; give the card beside it, a .json file");
  const json document =
      parse_json(text, source, "a model card is described in docs/reference/model-card.md");
  return read_checked(source, [&] { return read_card(document, text, path); });
}

ModelCard read_model_card(const std::filesystem::path& path) {
  return parse_model_card(read_text_file(path), path);
}

}  // namespace bespoke
