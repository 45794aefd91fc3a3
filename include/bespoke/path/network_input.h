#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bespoke/base/jet.h"
#include "bespoke/path/schedule.h"

namespace bespoke {

// How the network counts time. Ours runs from 0 at the noise to 1 at the data.
enum class TimeConvention {
  noise_to_data,  // t
  data_to_noise,  // 1 - t
  index,          // N (1 - t) - 1: the index of N discrete levels, fractional in between
  sigma,          // sigma / alpha
  log_sigma,      // log(sigma / alpha) / 4, EDM's c_noise
  none,           // it takes no time
};

struct TimeCard {
  TimeConvention convention = TimeConvention::noise_to_data;
  double scale = 1;      // multiplied onto the above
  int64_t levels = 0;    // N, for index
  bool integer = false;  // rounded to a whole index and passed as int64
};

// What the network is given in place of x.
enum class InputScaling {
  none,
  edm,  // c_in x / alpha, c_in = 1 / sqrt((sigma / alpha)^2 + 0.5^2)
};

// The names by which cards call these.
const std::vector<std::string>& time_convention_names();

// Checks every key; a mistake is bad input that begins with `where`.
TimeCard time_card_from_json(const nlohmann::json& time, const std::string& where);

// How the network counts time and scales its input, as a card says it: {"convention": "index",
// "levels": 1000, "input_scaling": "edm"}, without what is at its default.
nlohmann::json describe(const TimeCard& time, InputScaling scaling);

// Reads both, as describe() writes them.
struct NetworkInput {
  TimeCard time;
  InputScaling scaling = InputScaling::none;
};
NetworkInput network_input_from_json(const nlohmann::json& description, const std::string& where);

// Our time as the network's, with its derivative.
Jet network_time(const TimeCard& card, const Schedule& schedule, double t);

// The number that the network is given: that time, rounded to an integer where the card asks for
// it.
double network_time_value(const TimeCard& card, const Schedule& schedule, double t);

// What x is multiplied by before the network sees it, with its derivative.
Jet network_input_scale(InputScaling scaling, const Schedule& schedule, double t);

}  // namespace bespoke
