#include "bespoke/base/json_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"

namespace bespoke::detail {

using nlohmann::json;

void require(bool good, const std::string& where, const std::string& problem) {
  if (!good) throw bad_input("{}: {}", where, problem);
}

json parse_json(const std::string& text, const std::string& source, const std::string& hint) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    throw bad_input("{}: not a JSON file ({}); {}", source, error.what(), hint);
  }
}

void check_keys(const json& object, const std::vector<std::string>& needed,
                const std::vector<std::string>& optional, const std::string& where) {
  require(object.is_object(), where, fmt::format("must be an object, found {}", object.dump()));
  for (const auto& key : needed) {
    require(object.contains(key), where, fmt::format("key \"{}\" is missing", key));
  }
  std::vector<std::string> known = needed;
  known.insert(known.end(), optional.begin(), optional.end());
  for (const auto& item : object.items()) {
    const bool found = std::find(known.begin(), known.end(), item.key()) != known.end();
    require(found, where, unknown_name("key", item.key(), known));
  }
}

double number(const json& value, const std::string& where) {
  require(value.is_number(), where, fmt::format("must be a number, found {}", value.dump()));
  return value.get<double>();
}

int64_t whole_number(const json& value, const std::string& where, int64_t least, int64_t most) {
  require(value.is_number_integer(), where,
          fmt::format("must be a whole number, found {}", value.dump()));
  const auto whole = value.get<int64_t>();
  require(whole >= least && whole <= most, where,
          fmt::format("is {}, it must be from {} to {}", whole, least, most));
  return whole;
}

std::string text_value(const json& value, const std::string& where) {
  require(value.is_string(), where, fmt::format("must be a text, found {}", value.dump()));
  return value.get<std::string>();
}

std::vector<double> number_list(const json& value, const std::string& where, size_t length) {
  require(value.is_array(), where, "must be a list of numbers");
  require(value.size() == length, where,
          fmt::format("has {} entries, {} are needed", value.size(), length));
  std::vector<double> list;
  for (size_t i = 0; i < value.size(); ++i) {
    list.push_back(number(value[i], fmt::format("{}[{}]", where, i)));
  }
  return list;
}

}  // namespace bespoke::detail
