#include "bespoke/path/network_input.h"

#include <cmath>
#include <stdexcept>

#include "bespoke/base/json_checks.h"
#include "bespoke/path/prediction.h"

namespace bespoke {

using namespace detail;

const std::vector<std::string>& time_convention_names() {
  static const std::vector<std::string> names = {"noise-to-data", "data-to-noise", "index",
                                                 "sigma",         "log-sigma",     "none"};
  return names;
}

TimeCard time_card_from_json(const nlohmann::json& time, const std::string& where) {
  check_keys(time, {"convention"}, {"scale", "levels", "integer"}, where);
  TimeCard card;
  card.convention = static_cast<TimeConvention>(
      choice(time_convention_names(), text_value(time["convention"], where + ".convention"),
             "time convention", where));
  if (time.contains("scale")) card.scale = number(time["scale"], where + ".scale");
  require(card.scale != 0, where, "scale must not be 0");
  if (card.convention == TimeConvention::none) {
    require(time.size() == 1, where, "a network that takes no time has no other key here");
    return card;
  }
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

nlohmann::json describe(const TimeCard& time, InputScaling scaling) {
  nlohmann::json description = {
      {"convention", time_convention_names()[static_cast<size_t>(time.convention)]}};
  if (time.scale != 1) description["scale"] = time.scale;
  if (time.levels != 0) description["levels"] = time.levels;
  if (time.integer) description["integer"] = true;
  if (scaling == InputScaling::edm) description["input_scaling"] = "edm";
  return description;
}

NetworkInput network_input_from_json(const nlohmann::json& description, const std::string& where) {
  NetworkInput input;
  nlohmann::json time = description;
  if (description.is_object() && description.contains("input_scaling")) {
    const std::string name = text_value(description["input_scaling"], where + ".input_scaling");
    input.scaling = static_cast<InputScaling>(
        choice({"none", "edm"}, name, "input_scaling", where + ".input_scaling"));
    time.erase("input_scaling");
  }
  input.time = time_card_from_json(time, where);
  return input;
}

Jet network_time(const TimeCard& card, const Schedule& schedule, double t) {
  const Jet ours = schedule.trained_time(t);
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
      case TimeConvention::none:
        return 0;
    }
    throw std::logic_error("time convention out of range");
  };
  return card.scale * convert();
}

double network_time_value(const TimeCard& card, const Schedule& schedule, double t) {
  const double value = network_time(card, schedule, t).value;
  return card.integer ? std::nearbyint(value) : value;
}

Jet network_input_scale(InputScaling scaling, const Schedule& schedule, double t) {
  if (scaling == InputScaling::none) return 1;
  // c_in / alpha, without dividing by alpha.
  const Jet alpha = schedule.alpha_jet(t);
  return 1 / sqrt(schedule.variance_jet(t) + kEdmSigmaData * kEdmSigmaData * alpha * alpha);
}

}  // namespace bespoke
