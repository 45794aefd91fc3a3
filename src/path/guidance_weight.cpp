#include "bespoke/path/guidance_weight.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

namespace {

using Point = std::pair<double, double>;

constexpr double kWidestRange = 1000;  // reports have a bin for every unit of it

// Empty if the weight makes sense, otherwise what is wrong with it.
std::string problem(const GuidanceWeight& weight) {
  for (size_t i = 0; i < weight.points.size(); ++i) {
    const auto& [t, w] = weight.points[i];
    if (!std::isfinite(w)) return "must be finite";
    if (!(t >= 0 && t <= 1)) return fmt::format("has t = {} outside 0 to 1", t);
    if (i > 0 && !(t > weight.points[i - 1].first)) return "must have increasing times";
  }
  if (weight.range) {
    const auto [least, most] = *weight.range;
    if (!std::isfinite(least) || !std::isfinite(most)) return "must be finite";
    if (!(least < most))
      return fmt::format("needs a range that rises, found {} to {}", least, most);
    if (!(weight.range->width() <= kWidestRange)) {
      return fmt::format("spans at most {}, found {} to {}", kWidestRange, least, most);
    }
  }
  const bool ordered = weight.from >= 0 && weight.from < weight.to && weight.to <= 1;
  return ordered ? "" : "needs an interval 0 <= from < to <= 1";
}

void check(const GuidanceWeight& weight, const std::string& what) {
  const std::string mistake = problem(weight);
  if (!mistake.empty()) throw usage_error("{} {}", what, mistake);
}

// One point is the same weight wherever it lies.
void place_single_point(GuidanceWeight& weight) {
  if (weight.points.size() == 1) weight.points.front().first = 0;
}

// "0-4", "-1-0.5" or "1e-3--2e-4" as its two ends: a minus between two numbers.
std::optional<std::pair<std::string, std::string>> split_range(const std::string& text) {
  for (size_t at = text.find('-', 1); at != std::string::npos; at = text.find('-', at + 1)) {
    const std::string left = text.substr(0, at), right = text.substr(at + 1);
    if (reads_as_number(left) && reads_as_number(right)) return std::make_pair(left, right);
  }
  return std::nullopt;
}

bool has_interval(const GuidanceWeight& weight) { return weight.from > 0 || weight.to < 1; }

void read_interval(GuidanceWeight& weight, const nlohmann::json& json, const std::string& where) {
  const auto interval = number_list(json, where + ".interval", 2);
  weight.from = interval[0];
  weight.to = interval[1];
}

GuidanceWeight range_from_json(const nlohmann::json& json, const std::string& where) {
  check_keys(json, {"from", "to"}, {"interval"}, where);
  GuidanceWeight weight =
      GuidanceRange{number(json["from"], where + ".from"), number(json["to"], where + ".to")};
  if (json.contains("interval")) read_interval(weight, json["interval"], where);
  return weight;
}

GuidanceWeight points_from_json(const nlohmann::json& json, const std::string& where) {
  check_keys(json, {"points", "interval"}, {}, where);
  require(json["points"].is_array() && !json["points"].empty(), where,
          "points must be a list of [t, w]");
  GuidanceWeight weight;
  weight.points.clear();
  for (const auto& point : json["points"]) {
    const auto pair = number_list(point, where + ".points", 2);
    weight.points.emplace_back(pair[0], pair[1]);
  }
  read_interval(weight, json["interval"], where);
  return weight;
}

}  // namespace

std::vector<GuidanceRange> GuidanceRange::bins() const {
  constexpr double kWide = 2, kRounding = 1e-9;
  const bool wide = width() >= kWide;
  const int count = wide ? static_cast<int>(std::ceil(width() - kRounding)) : 4;
  const double step = wide ? 1 : width() / count;
  std::vector<GuidanceRange> list;
  for (int i = 0; i < count; ++i) {
    list.push_back({from + i * step, i + 1 == count ? to : from + (i + 1) * step});
  }
  return list;
}

bool operator==(const GuidanceRange& left, const GuidanceRange& right) {
  return left.from == right.from && left.to == right.to;
}

bool covers(const GuidanceWeight& made, const GuidanceWeight& asked) {
  if (made == asked) return true;
  if (!made.range || made.from != asked.from || made.to != asked.to) return false;
  if (asked.range) {
    return made.range->contains(asked.range->from) && made.range->contains(asked.range->to);
  }
  return asked.points.size() == 1 && made.range->contains(asked.points.front().second);
}

Jet GuidanceWeight::at(double t) const {
  if (t < from || t > to) return 0;
  const auto next = std::upper_bound(points.begin(), points.end(), t,
                                     [](double time, const Point& p) { return time < p.first; });
  if (next == points.begin()) return points.front().second;
  if (next == points.end()) return points.back().second;
  const Point& left = *(next - 1);
  const double slope = (next->second - left.second) / (next->first - left.first);
  return {left.second + slope * (t - left.first), slope, 0};
}

bool GuidanceWeight::is_zero() const {
  return std::all_of(points.begin(), points.end(), [](const Point& p) { return p.second == 0; });
}

bool operator==(const GuidanceWeight& left, const GuidanceWeight& right) {
  return left.points == right.points && left.from == right.from && left.to == right.to &&
         left.range == right.range;
}

bool operator!=(const GuidanceWeight& left, const GuidanceWeight& right) {
  return !(left == right);
}

GuidanceWeight parse_guidance(const std::string& text, bool as_scale, const std::string& what) {
  const double offset = as_scale ? -1 : 0;
  GuidanceWeight weight;
  if (const auto ends = split_range(text)) {
    weight = GuidanceRange{parse_number(ends->first, what) + offset,
                           parse_number(ends->second, what) + offset};
  } else if (text.find(':') == std::string::npos) {
    weight = parse_number(text, what) + offset;
  } else {
    weight.points.clear();
    for (const auto& part : split(text, ',')) {
      const auto pair = split(part, ':');
      if (pair.size() != 2)
        throw usage_error("{} is W, FROM-TO or t:W,t:W,..., found '{}'", what, text);
      weight.points.emplace_back(parse_number(pair[0], what), parse_number(pair[1], what) + offset);
    }
  }
  check(weight, what);
  place_single_point(weight);
  return weight;
}

void parse_guidance_interval(GuidanceWeight& weight, const std::string& text,
                             const std::string& what) {
  const auto ends = split(text, ',');
  if (ends.size() != 2) throw usage_error("{} is FROM,TO in t, found '{}'", what, text);
  weight.from = parse_number(ends[0], what);
  weight.to = parse_number(ends[1], what);
  check(weight, what);
}

std::string to_string(const GuidanceWeight& weight) {
  std::string text;
  if (weight.range) {
    const auto [least, most] = *weight.range;
    text = fmt::format("guidance w = {} to {}, each sample its own (guidance_scale {} to {})",
                       least, most, 1 + least, 1 + most);
  } else if (weight.points.size() == 1) {
    const double w = weight.points.front().second;
    text = fmt::format("guidance w = {} (guidance_scale {})", w, 1 + w);
  } else {
    std::vector<std::string> ws, scales;
    for (const auto& [t, w] : weight.points) {
      ws.push_back(fmt::format("{}:{}", t, w));
      scales.push_back(fmt::format("{}:{}", t, 1 + w));
    }
    text = fmt::format("guidance w(t) = {} (guidance_scale {})", fmt::join(ws, ","),
                       fmt::join(scales, ","));
  }
  if (has_interval(weight)) {
    text += fmt::format(" for t in [{}, {}]", weight.from, weight.to);
  }
  return text;
}

nlohmann::json describe(const GuidanceWeight& weight) {
  if (weight.is_constant()) return weight.points.front().second;
  nlohmann::json json;
  if (weight.range) {
    json = {{"from", weight.range->from}, {"to", weight.range->to}};
    if (!has_interval(weight)) return json;
  } else {
    json["points"] = weight.points;
  }
  json["interval"] = {weight.from, weight.to};
  return json;
}

GuidanceWeight guidance_from_json(const nlohmann::json& json, const std::string& where) {
  if (json.is_number()) return number(json, where);
  const bool range = json.is_object() && json.contains("from");
  GuidanceWeight weight = range ? range_from_json(json, where) : points_from_json(json, where);
  const std::string mistake = problem(weight);
  require(mistake.empty(), where, mistake);
  place_single_point(weight);
  return weight;
}

}  // namespace bespoke
