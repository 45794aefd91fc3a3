#include "bespoke/model/card.h"

#include <fmt/format.h>

#include <algorithm>

#include "bespoke/core/error.h"
#include "bespoke/core/file.h"
#include "bespoke/core/json_checks.h"
#include "bespoke/core/text.h"

namespace bespoke {

namespace {

using nlohmann::json;

constexpr int64_t kLargest = int64_t{1} << 40;

const std::vector<std::string>& time_convention_names() {
  static const std::vector<std::string> names = {"noise-to-data", "data-to-noise", "index", "sigma",
                                                 "log-sigma"};
  return names;
}

// The index of `name` in `names`, or an error that lists or suggests them.
size_t choice(const std::vector<std::string>& names, const std::string& name,
              const std::string& what, const std::string& where) {
  const auto found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), where, unknown_name(what, name, names));
  return static_cast<size_t>(found - names.begin());
}

TimeCard read_time(const json& time, const std::string& where) {
  check_keys(time, {"convention"}, {"scale", "levels", "integer"}, where);
  TimeCard card;
  card.convention = static_cast<TimeConvention>(
      choice(time_convention_names(), text_value(time["convention"], where + ".convention"),
             "time convention", where));
  if (time.contains("scale")) card.scale = number(time["scale"], where + ".scale");
  require(card.scale != 0, where, "scale must not be 0");
  const bool index = card.convention == TimeConvention::index;
  require(index == time.contains("levels"), where,
          "\"levels\", the number of discrete levels, goes with the convention \"index\"");
  if (index) card.levels = whole_number(time["levels"], where + ".levels", 2, 1000000);
  if (time.contains("integer")) {
    require(index && time["integer"].is_boolean(), where,
            "\"integer\" is true or false and goes with the convention \"index\"");
    card.integer = time["integer"].get<bool>();
  }
  return card;
}

ConditionCard read_condition(const json& condition, const std::string& where) {
  check_keys(condition, {"name", "classes"}, {"null"}, where);
  ConditionCard card;
  card.name = text_value(condition["name"], where + ".name");
  card.classes = whole_number(condition["classes"], where + ".classes", 1, kLargest);
  if (condition.contains("null")) {
    card.null = whole_number(condition["null"], where + ".null", 0, kLargest);
  }
  return card;
}

std::vector<int64_t> read_shape(const json& shape, const std::string& where) {
  require(shape.is_array() && !shape.empty(), where,
          "must be a list of sizes without the batch, e.g. [3, 32, 32]");
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < shape.size(); ++i) {
    sizes.push_back(whole_number(shape[i], fmt::format("{}[{}]", where, i), 1, kLargest));
  }
  return sizes;
}

ModelCard read_card(const json& document, const std::filesystem::path& path) {
  const std::string source = path.string();
  check_keys(document, {"format", "weights", "sample_shape", "prediction", "schedule", "time"},
             {"name", "weights_sha256", "value_range", "conditions", "licence", "source"}, source);
  ModelCard card;
  card.format = text_value(document["format"], source + ": format");
  card.weights = path.parent_path() / text_value(document["weights"], source + ": weights");
  card.sample_shape = read_shape(document["sample_shape"], source + ": sample_shape");
  card.prediction = static_cast<Prediction>(
      choice(prediction_names(), text_value(document["prediction"], source + ": prediction"),
             "prediction", source));
  card.schedule = schedule_from_json(document["schedule"]);
  card.time = read_time(document["time"], source + ": time");
  const auto optional_text = [&](const char* key) {
    return document.contains(key) ? text_value(document[key], source + ": " + key) : std::string();
  };
  card.name = document.contains("name") ? optional_text("name") : card.weights.stem().string();
  card.weights_sha256 = optional_text("weights_sha256");
  card.licence = optional_text("licence");
  card.source = optional_text("source");
  if (document.contains("value_range")) {
    const auto range = number_list(document["value_range"], source + ": value_range", 2);
    require(range[0] < range[1], source, "value_range must be [least, most]");
    card.least = range[0];
    card.most = range[1];
  }
  if (document.contains("conditions")) {
    const json& list = document["conditions"];
    require(list.is_array(), source, "conditions must be a list");
    for (size_t i = 0; i < list.size(); ++i) {
      card.conditions.push_back(
          read_condition(list[i], fmt::format("{}: conditions[{}]", source, i)));
    }
  }
  return card;
}

}  // namespace

ModelCard parse_model_card(const std::string& text, const std::filesystem::path& path) {
  const std::string source = path.string();
  const json document = parse_json(text, source, "a model card is described in docs/model-card.md");
  return read_checked(source, [&] { return read_card(document, path); });
}

ModelCard read_model_card(const std::filesystem::path& path) {
  return parse_model_card(read_file(path), path);
}

Jet network_time(const TimeCard& card, const Schedule& schedule, double t) {
  const Jet ours = Jet::variable(t);
  const auto convert = [&]() -> Jet {
    switch (card.convention) {
      case TimeConvention::noise_to_data:
        return ours;
      case TimeConvention::data_to_noise:
        return 1 - ours;
      case TimeConvention::index: {
        // Between the data and index 0 the network has nothing to say but what it says at index 0.
        const Jet index = static_cast<double>(card.levels) * (1 - ours) - 1;
        return index.value < 0 ? Jet(0) : index;
      }
      case TimeConvention::sigma:
        return schedule.sigma_jet(t) / schedule.alpha_jet(t);
      case TimeConvention::log_sigma:
        return 0.25 * log(schedule.sigma_jet(t) / schedule.alpha_jet(t));
    }
    throw std::logic_error("time convention out of range");
  };
  return card.scale * convert();
}

}  // namespace bespoke
