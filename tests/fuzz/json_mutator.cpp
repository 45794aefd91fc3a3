#include "fuzz/json_mutator.h"

#include <nlohmann/json.hpp>
#include <random>

namespace bespoke::fuzz {

namespace {

// In the order of the text, so that a document stays as it is where nothing is wrong with it.
using Json = nlohmann::ordered_json;

class Mutator {
 public:
  Mutator(const std::vector<std::string>& others, uint64_t seed) : others_(others), random_(seed) {}

  std::string mutate(Json document) {
    const size_t times = 1 + below(4);
    std::string repeated;
    for (size_t i = 0; i < times; ++i) change(document, repeated);
    std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (!repeated.empty()) repeat_key(text, repeated);
    return text;
  }

  // Of what is no JSON.
  std::string mutate_bytes(std::string text) {
    for (size_t i = 0, times = 1 + below(8); i < times && !text.empty(); ++i) {
      text[below(text.size())] = static_cast<char>(below(256));
    }
    return text;
  }

 private:
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }

  template <class Value>
  const Value& one_of(const std::vector<Value>& list) {
    return list[below(list.size())];
  }

  void collect(Json& node, std::vector<Json*>& nodes) {
    nodes.push_back(&node);
    if (!node.is_structured()) return;
    for (auto& child : node) collect(child, nodes);
  }

  Json& any_node(Json& document) {
    std::vector<Json*> nodes;
    collect(document, nodes);
    return *one_of(nodes);
  }

  Json odd_value() {
    static const std::vector<Json> values = {nullptr,
                                             true,
                                             false,
                                             Json::array(),
                                             Json::object(),
                                             0,
                                             -1,
                                             1,
                                             2,
                                             0.5,
                                             -0.0,
                                             1e-320,
                                             1e308,
                                             -1e308,
                                             1e-7,
                                             9007199254740993,
                                             9223372036854775807,
                                             -9223372036854775807 - 1,
                                             18446744073709551615u,
                                             4294967296,
                                             2147483648,
                                             "",
                                             " ",
                                             "0",
                                             "NaN",
                                             "null",
                                             "../../etc/passwd",
                                             "/dev/zero",
                                             "/",
                                             ".",
                                             "a\nb",
                                             std::string("a\0b", 3),
                                             "\x1b[31m",
                                             "\xE2\x80\xAE"
                                             "txt",
                                             "\xC2\x9B"
                                             "2J",
                                             "*/ int",
                                             "{}",
                                             "%s%n",
                                             "y ",
                                             "guidance w",
                                             "-1-0.5",
                                             "\xF0\x9F\x8E\xA8",
                                             std::string(5000, 'x'),
                                             Json::array({Json::array({Json::array()})})};
    return one_of(values);
  }

  Json number_near(const Json& value) {
    const double number = value.get<double>();
    static const std::vector<double> factors = {-1, 0, 2, 0.5, 10, 1e6, 1e-6, 1e300, 1 + 1e-9};
    if (value.is_number_integer() && below(2) == 0) {
      return value.get<int64_t>() / 2 + static_cast<int64_t>(below(5)) - 2;
    }
    return number * one_of(factors);
  }

  void change(Json& document, std::string& repeated) {
    Json& node = any_node(document);
    switch (below(8)) {
      case 0:
        node = odd_value();
        break;
      case 1:
        if (node.is_number()) {
          node = number_near(node);
        } else {
          node = any_node(document);
        }
        break;
      case 2:
        remove_from(node);
        break;
      case 3:
        if (node.is_object() && !node.empty()) repeated = key_of(node);
        break;
      case 4:
        rename_in(node);
        break;
      case 5:
        change_places(document);
        break;
      case 6:
        lengthen(node);
        break;
      default:
        put_part_of_another(node);
    }
  }

  std::string key_of(const Json& object) {
    auto place = object.begin();
    std::advance(place, static_cast<std::ptrdiff_t>(below(object.size())));
    return place.key();
  }

  void remove_from(Json& node) {
    if (node.is_object() && !node.empty()) node.erase(key_of(node));
    if (node.is_array() && !node.empty()) node.erase(below(node.size()));
  }

  void rename_in(Json& node) {
    if (!node.is_object() || node.empty()) return;
    const std::string key = key_of(node);
    const Json value = node[key];
    node.erase(key);
    static const std::vector<std::string> names = {
        "", " ", "name", "times", "null", "c", "guided", "scale", "\xE2\x80\xAE", "weights_sha256"};
    node[below(2) == 0 ? key + "s" : one_of(names)] = value;
  }

  void change_places(Json& document) {
    Json& left = any_node(document);
    const Json kept = left;
    Json& right = any_node(document);
    const Json other = right;
    right = kept;
    // What was written first may hold the other, and be gone.
    any_node(document) = other;
  }

  void lengthen(Json& node) {
    if (!node.is_array() || node.empty()) return;
    const Json item = node[below(node.size())];
    for (size_t i = 0, times = 1 + below(3); i < times; ++i) node.push_back(item);
  }

  void put_part_of_another(Json& node) {
    if (others_.empty()) return;
    Json other = Json::parse(one_of(others_), nullptr, false);
    if (!other.is_discarded()) node = Json(any_node(other));
  }

  // The object keeps both values: a document in memory could not.
  void repeat_key(std::string& text, const std::string& key) {
    const std::string quoted = Json(key).dump(-1, ' ', false, Json::error_handler_t::replace) + ":";
    const size_t at = text.find(quoted);
    if (at != std::string::npos) {
      text.insert(at,
                  quoted + odd_value().dump(-1, ' ', false, Json::error_handler_t::replace) + ",");
    }
  }

  const std::vector<std::string>& others_;
  std::mt19937_64 random_;
};

}  // namespace

std::string mutated_json(const std::string& text, const std::vector<std::string>& others,
                         uint64_t seed) {
  Mutator mutator(others, seed);
  Json document = Json::parse(text, nullptr, false);
  return document.is_discarded() ? mutator.mutate_bytes(text) : mutator.mutate(std::move(document));
}

}  // namespace bespoke::fuzz
