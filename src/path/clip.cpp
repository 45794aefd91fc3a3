#include "bespoke/path/clip.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"

namespace bespoke {

using namespace detail;

void Clip::validate() const {
  if (!(std::isfinite(least) && std::isfinite(most) && least < most)) {
    throw bad_input("clip: the range must be [least, most], found [{}, {}]", least, most);
  }
  if (!is_dynamic()) return;
  if (!(quantile < 1)) {
    throw bad_input("clip: the quantile must lie between 0 and 1, found {}", quantile);
  }
  if (least != -most || !(cap >= most) || !std::isfinite(cap)) {
    throw bad_input(
        "clip: a dynamic threshold needs a range even about 0 and a cap not below it, found [{}, "
        "{}] and the cap {}",
        least, most, cap);
  }
}

bool operator==(const Clip& left, const Clip& right) {
  return left.least == right.least && left.most == right.most && left.quantile == right.quantile &&
         left.cap == right.cap;
}

Clip clip_from_json(const nlohmann::json& clip, const std::string& where, double least,
                    double most) {
  Clip result = {least, most};
  const auto read_range = [&](const nlohmann::json& range, const std::string& at) {
    const auto ends = number_list(range, at, 2);
    result.least = ends[0];
    result.most = ends[1];
  };
  if (clip.is_object()) {
    check_keys(clip, {"quantile", "cap"}, {"range"}, where);
    result.quantile = number(clip["quantile"], where + ".quantile");
    require(result.quantile > 0, where + ".quantile", "must lie between 0 and 1");
    result.cap = number(clip["cap"], where + ".cap");
    if (clip.contains("range")) read_range(clip["range"], where + ".range");
  } else if (clip.is_array()) {
    read_range(clip, where);
  } else {
    require(clip.is_boolean() && clip.get<bool>(), where,
            "must be true, [least, most] or {\"quantile\": ..., \"cap\": ...}; leave it out where "
            "nothing is clipped");
  }
  return read_checked(where, [&] {
    result.validate();
    return result;
  });
}

nlohmann::json describe(const Clip& clip) {
  nlohmann::json range = {clip.least, clip.most};
  if (!clip.is_dynamic()) return range;
  return {{"range", range}, {"quantile", clip.quantile}, {"cap", clip.cap}};
}

std::string to_string(const Clip& clip) {
  if (!clip.is_dynamic()) return fmt::format("data clipped to [{}, {}]", clip.least, clip.most);
  return fmt::format("data clipped at its {} quantile, from {} to {}, and scaled to {}",
                     clip.quantile, clip.most, clip.cap, clip.most);
}

}  // namespace bespoke
