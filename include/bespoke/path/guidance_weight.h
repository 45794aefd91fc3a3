#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/jet.h"

namespace bespoke {

// The weight w(t) of classifier-free guidance, u_w = (1 + w) u(x|y) - w u(x), in our time: linear
// between points, constant beyond the first and the last, and zero outside the interval, where no
// unconditional pass is needed. What other tools call guidance_scale is 1 + w.
struct GuidanceWeight {
  std::vector<std::pair<double, double>> points = {{0, 0}};  // (t, w), t increasing
  double from = 0, to = 1;

  GuidanceWeight() = default;
  GuidanceWeight(double w) : points{{0, w}} {}  // a constant is a weight: the usual case

  Jet at(double t) const;
  bool is_zero() const;
  bool is_constant() const { return points.size() == 1 && from <= 0 && to >= 1; }
};

bool operator==(const GuidanceWeight& left, const GuidanceWeight& right);
bool operator!=(const GuidanceWeight& left, const GuidanceWeight& right);

// "2" or "0:1,0.5:3,1:0" (t:value). Values are w, or 1 + w where `as_scale`; `what` names the
// value in messages. The interval is "from,to".
GuidanceWeight parse_guidance(const std::string& text, bool as_scale, const std::string& what);
void parse_guidance_interval(GuidanceWeight& weight, const std::string& text,
                             const std::string& what);

// "guidance w = 2 (guidance_scale 3)": both conventions, so that no figure is misread.
std::string to_string(const GuidanceWeight& weight);

// A number where w is constant, otherwise {"points": [[t, w], ...], "interval": [from, to]}.
nlohmann::json describe(const GuidanceWeight& weight);
GuidanceWeight guidance_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace bespoke
