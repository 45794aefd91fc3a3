#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/jet.h"

namespace bespoke {

// Weights w from one to another, of which each sample has its own.
struct GuidanceRange {
  double from = 0, to = 0;

  double width() const { return to - from; }
  bool contains(double w) const { return w >= from && w <= to; }
  // Its parts in order, to show figures by: of width one where it is at least two wide (the last
  // may be narrower), otherwise four equal ones.
  std::vector<GuidanceRange> bins() const;
};
bool operator==(const GuidanceRange& left, const GuidanceRange& right);

// What each sample's own w is called among its conditions. No condition of a model may be called
// so.
constexpr char kGuidanceCondition[] = "guidance w";

// The weight w(t) of classifier-free guidance, u_w = (1 + w) u(x|y) - w u(x), in our time: linear
// between points, constant beyond the first and the last, and zero outside the interval, where no
// unconditional pass is needed. What other tools call guidance_scale is 1 + w.
//
// With a range, every sample has a w of its own there, the same at all times of the interval. The
// points then are that sample's share of its w, 1, so that at(t) times its w is what it gets.
struct GuidanceWeight {
  std::vector<std::pair<double, double>> points = {{0, 0}};  // (t, w), t increasing
  double from = 0, to = 1;
  std::optional<GuidanceRange> range;

  GuidanceWeight() = default;
  GuidanceWeight(double w) : points{{0, w}} {}  // a constant is a weight: the usual case
  GuidanceWeight(GuidanceRange range) : points{{0, 1}}, range(range) {}

  Jet at(double t) const;
  bool is_zero() const;
  bool is_constant() const { return !range && points.size() == 1 && from <= 0 && to >= 1; }
};

bool operator==(const GuidanceWeight& left, const GuidanceWeight& right);
bool operator!=(const GuidanceWeight& left, const GuidanceWeight& right);

// Whether what was made for `made` was made for `asked` too: the same, or a weight or range inside
// its range.
bool covers(const GuidanceWeight& made, const GuidanceWeight& asked);

// "2", "0:1,0.5:3,1:0" (t:value) or the range "0-4" ("-1-0.5" begins below zero). Values are w, or
// 1 + w where `as_scale`; `what` names the value in messages. The interval is "from,to".
GuidanceWeight parse_guidance(const std::string& text, bool as_scale, const std::string& what);
void parse_guidance_interval(GuidanceWeight& weight, const std::string& text,
                             const std::string& what);

// "guidance w = 2 (guidance_scale 3)": both conventions, so that no figure is misread.
std::string to_string(const GuidanceWeight& weight);

// A number where w is constant, {"from": 0, "to": 4} for a range (with "interval" where it has
// one), otherwise {"points": [[t, w], ...], "interval": [from, to]}.
nlohmann::json describe(const GuidanceWeight& weight);
GuidanceWeight guidance_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace bespoke
