#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace bespoke {

// What a sampler does to the data prediction at every evaluation, before it steps: the field of a
// model that was always sampled so is the clipped one.
//   fixed    D in [least, most]
//   dynamic  s = the quantile of |D| over the values of a sample, but within [most, cap];
//            D in [-s, s], times most / s (Imagen's; the range is even about 0)
// With guidance it acts on the guided prediction.
struct Clip {
  double least = -1, most = 1;
  double quantile = 0;  // 0: fixed
  double cap = 0;       // of a dynamic one

  bool is_dynamic() const { return quantile > 0; }
  // Checks the numbers. Throws bad input.
  void validate() const;
};
bool operator==(const Clip& left, const Clip& right);
inline bool operator!=(const Clip& left, const Clip& right) { return !(left == right); }

// Reads a clip as cards write it: true for [least, most], another [LEAST, MOST], or {"quantile":
// 0.995, "cap": 1.5, "range": [-1, 1]}. A mistake is bad input that begins with `where`.
Clip clip_from_json(const nlohmann::json& clip, const std::string& where, double least = -1,
                    double most = 1);
nlohmann::json describe(const Clip& clip);
// Says "data clipped to [-1, 1]".
std::string to_string(const Clip& clip);

}  // namespace bespoke
