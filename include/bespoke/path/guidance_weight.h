#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/jet.h"

namespace bespoke {

// A range of weights w, from which each sample has its own.
struct GuidanceRange {
  double from = 0;  // the least weight
  double to = 0;    // the greatest weight

  // How far apart the least and the greatest weight are.
  double width() const { return to - from; }
  // Whether the weight lies in the range, ends included.
  bool contains(double w) const { return w >= from && w <= to; }
  // The parts of the range that figures are shown for, in order: each of width one where the range
  // is at least two wide (the last may be narrower), otherwise four equal ones.
  std::vector<GuidanceRange> bins() const;
};
// Whether both ends are the same.
bool operator==(const GuidanceRange& left, const GuidanceRange& right);

// The name of each sample's own w among its conditions. No condition of a model may have it.
constexpr char kGuidanceCondition[] = "guidance w";

// The weight w(t) of classifier-free guidance, u_w = (1 + w) u(x|y) - w u(x), in our time: linear
// between points, constant beyond the first and the last, and zero outside the interval, where no
// unconditional pass is needed. What other tools call guidance_scale is 1 + w.
//
// With a range, every sample has a w of its own there, the same at all times of the interval. The
// points then are that sample's share of its w, 1, so that at(t) times its w is what it gets.
struct GuidanceWeight {
  std::vector<std::pair<double, double>> points = {{0, 0}};  // (t, w), t increasing
  double from = 0;                                           // where the interval begins
  double to = 1;                                             // where the interval ends
  std::optional<GuidanceRange> range;                        // of each sample's own w

  // No guidance: w = 0.
  GuidanceWeight() = default;
  // The same weight at all times, which is the usual case and so converts implicitly.
  GuidanceWeight(double w) : points{{0, w}} {}
  // A range of weights, of which each sample has its own.
  GuidanceWeight(GuidanceRange range) : points{{0, 1}}, range(range) {}

  // The weight at t, or the share of each sample's own, with its derivative.
  Jet at(double t) const;
  // Whether there is no guidance at any time.
  bool is_zero() const;
  // Whether the weight is the same at all times and for all samples.
  bool is_constant() const { return !range && points.size() == 1 && from <= 0 && to >= 1; }
};

// Whether both are the same points, interval and range.
bool operator==(const GuidanceWeight& left, const GuidanceWeight& right);
// Whether they differ in any of these.
bool operator!=(const GuidanceWeight& left, const GuidanceWeight& right);

// Whether what was made for `made` was made for `asked` too: the same, or a weight or range inside
// its range.
bool covers(const GuidanceWeight& made, const GuidanceWeight& asked);

// Reads "2", "0:1,0.5:3,1:0" (t:value) or the range "0-4" ("-1-0.5" begins below zero). Values are
// w, or 1 + w where `as_scale`; `what` names the value in messages.
GuidanceWeight parse_guidance(const std::string& text, bool as_scale, const std::string& what);
// Reads the interval "from,to" into a weight.
void parse_guidance_interval(GuidanceWeight& weight, const std::string& text,
                             const std::string& what);

// Writes "guidance w = 2 (guidance_scale 3)": both conventions, so that no figure is misread.
std::string to_string(const GuidanceWeight& weight);

// Writes a number where w is constant, {"from": 0, "to": 4} for a range (with "interval" where it
// has one), otherwise {"points": [[t, w], ...], "interval": [from, to]}.
nlohmann::json describe(const GuidanceWeight& weight);
// Reads what `describe` wrote; `where` names it in messages.
GuidanceWeight guidance_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace bespoke
