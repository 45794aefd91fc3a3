#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bespoke::detail {

// A name with options as users type it, "vp:B=20,b=0.1". Options without '=' are positional and
// keep their order ("custom:0,0.5,1").
struct Spec {
  std::string name;
  std::map<std::string, std::string> options;
  std::vector<std::string> positional;

  static Spec parse(const std::string& text);

  double number(const std::string& key, double fallback) const;
  int64_t integer(const std::string& key, int64_t fallback) const;

  // Throws a usage error that names the first option not in `names` and suggests the nearest.
  void allow_only(const std::vector<std::string>& names) const;
};

}  // namespace bespoke::detail
