#include "bespoke/base/json_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"

namespace bespoke::detail {

using nlohmann::json;

void require(bool good, const std::string& where, const std::string& problem) {
  if (!good) throw bad_input("{}: {}", where, problem);
}

namespace {

constexpr int kMostLevels = 100;
constexpr size_t kShown = 80;  // bytes of a value

// How deep the brackets outside of its texts go, a lower bound of what a parser would build.
bool is_too_deep(const std::string& text) {
  int level = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (++level > kMostLevels) return true;
    } else if (c == '}' || c == ']') {
      --level;
    }
  }
  return false;
}

// Where byte number `byte`, counted from 1, lies.
std::string place_of(size_t byte, const std::string& text) {
  const size_t end = std::min(text.size(), byte == 0 ? 0 : byte - 1);
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  const size_t start = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  return fmt::format("line {}, column {}", line,
                     start == std::string::npos ? end + 1 : end - start);
}

// Refuses repeated keys: of two values under one, a program would take the one and a person see the
// other.
class RefuseRepeatedKeys {
 public:
  RefuseRepeatedKeys(const std::string& source, const std::string& hint)
      : source_(source), hint_(hint) {}

  void see(json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event != json::parse_event_t::key) return;
    const auto& key = parsed.get_ref<const std::string&>();
    require(open_.back().insert(key).second, source_,
            fmt::format("key \"{}\" is there twice; {}", shortened(key, kShown), hint_));
  }

 private:
  const std::string &source_, &hint_;
  std::vector<std::set<std::string>> open_;  // the keys of the objects around
};

// A value as it is told to people.
std::string brief(const json& value) { return shortened(json_text(value), kShown); }

}  // namespace

json try_parse_json(const std::string& text) {
  if (is_too_deep(text)) return json(json::value_t::discarded);
  return json::parse(text, nullptr, false);
}

json parse_json(const std::string& text, const std::string& source, const std::string& hint) {
  require(!is_too_deep(text), source,
          fmt::format("its values lie more than {} levels deep; {}", kMostLevels, hint));
  try {
    RefuseRepeatedKeys keys(source, hint);
    return json::parse(text, [&keys](int, json::parse_event_t event, const json& parsed) {
      keys.see(event, parsed);
      return true;
    });
  } catch (const json::parse_error& error) {
    throw bad_input("{}: not a JSON file ({}); {}", source, place_of(error.byte, text), hint);
  } catch (const json::exception& error) {
    throw bad_input("{}: not a JSON file ({}); {}", source, plain_words(error), hint);
  }
}

// "[json.exception.type_error.302] type must be array, but is number"
std::string plain_words(const json::exception& error) {
  const std::string message = error.what();
  const size_t end = message.find("] ");
  return shortened(
      message[0] == '[' && end != std::string::npos ? message.substr(end + 2) : message, kShown);
}

void check_keys(const json& object, const std::vector<std::string>& needed,
                const std::vector<std::string>& optional, const std::string& where) {
  require(object.is_object(), where, fmt::format("must be an object, found {}", brief(object)));
  for (const auto& key : needed) {
    require(object.contains(key), where, fmt::format("key \"{}\" is missing", key));
  }
  std::vector<std::string> keys = needed;
  keys.insert(keys.end(), optional.begin(), optional.end());
  for (const auto& item : object.items()) {
    const bool is_known = std::find(keys.begin(), keys.end(), item.key()) != keys.end();
    require(is_known, where, unknown_name("key", item.key(), keys));
  }
}

double number(const json& value, const std::string& where) {
  require(value.is_number(), where, fmt::format("must be a number, found {}", brief(value)));
  return value.get<double>();
}

int64_t whole_number(const json& value, const std::string& where, int64_t least, int64_t most) {
  require(value.is_number_integer(), where,
          fmt::format("must be a whole number, found {}", brief(value)));
  const auto integer = value.get<int64_t>();
  require(integer >= least && integer <= most, where,
          fmt::format("is {}, it must be from {} to {}", integer, least, most));
  return integer;
}

std::string text_value(const json& value, const std::string& where) {
  require(value.is_string(), where, fmt::format("must be a text, found {}", brief(value)));
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

size_t choice(const std::vector<std::string>& names, const std::string& name,
              const std::string& what, const std::string& where) {
  const auto place = std::find(names.begin(), names.end(), name);
  require(place != names.end(), where, unknown_name(what, name, names));
  return static_cast<size_t>(place - names.begin());
}

}  // namespace bespoke::detail
