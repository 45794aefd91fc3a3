#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bespoke/base/error.h"

namespace bespoke::detail {

// Reading files that people write by hand: every mistake is a bad-input error of one sentence that
// begins with `where`, the file or the key inside it.

void require(bool good, const std::string& where, const std::string& problem);

// More than a hundred levels are refused: what walks a document goes down its levels by recursion.
// So is an object with the same key twice, of which most readers take the last without a word.
nlohmann::json parse_json(const std::string& text, const std::string& source,
                          const std::string& hint);

// The same without an error: the value is discarded where the text is no JSON, such as the last
// line of a killed run's log.
nlohmann::json try_parse_json(const std::string& text);

// Writes JSON as text. Names are bytes, and JSON has to be UTF-8: what is none becomes U+FFFD.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// The sentence in which the JSON library describes a mistake, without the name it has for it.
std::string plain_words(const nlohmann::json::exception& error);

// Every key of `needed` must be there, every other must be in `optional`.
void check_keys(const nlohmann::json& object, const std::vector<std::string>& needed,
                const std::vector<std::string>& optional, const std::string& where);

double number(const nlohmann::json& value, const std::string& where);
int64_t whole_number(const nlohmann::json& value, const std::string& where, int64_t least,
                     int64_t most);
// The value as it was written: 4.5 is no whole number, and true is no number.
template <class Value>
Value exact_value(const nlohmann::json& value, const std::string& where) {
  auto found = value.get<Value>();
  require(nlohmann::json(found) == value, where,
          fmt::format("has a value of another type, {}", json_text(value)));
  return found;
}
std::string text_value(const nlohmann::json& value, const std::string& where);
std::vector<double> number_list(const nlohmann::json& value, const std::string& where,
                                size_t length);

// The index of `name` in `names`; an error that suggests or lists them calls it `what`.
size_t choice(const std::vector<std::string>& names, const std::string& name,
              const std::string& what, const std::string& where);

// What read() returns. Whatever it throws becomes a bad-input error that begins with `source`.
template <class Read>
auto read_checked(const std::string& source, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool named = message.rfind(source, 0) == 0;
    throw Error(ErrorKind::bad_input, named ? message : source + ": " + message);
  } catch (const nlohmann::json::exception& error) {
    throw bad_input("{}: {}", source, plain_words(error));
  }
}

}  // namespace bespoke::detail
