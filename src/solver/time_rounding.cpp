#include "bespoke/solver/time_rounding.h"

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/spec.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

namespace {

// What tools that count time in thousandths of noise pass on to their networks.
constexpr double kNoiseUnits = 1000;

// The neighbouring numbers of noise that can be said: how far apart they are at this one.
double spacing(const TimeRounding& rounding, double noise) {
  constexpr int kBf16Digits = 8;
  if (rounding.kind == TimeRounding::Kind::integer) return 1;
  int exponent = 0;
  std::frexp(noise, &exponent);
  return std::ldexp(1.0, exponent - kBf16Digits);
}

double nearest(const TimeRounding& rounding, double noise) {
  const double step = spacing(rounding, noise);
  return std::nearbyint(noise / step) * step;
}

// The least number above this one that can be said.
double above(const TimeRounding& rounding, double noise) {
  const double rounded = nearest(rounding, noise);
  return rounded > noise ? rounded : rounded + spacing(rounding, rounded);
}

}  // namespace

TimeRounding parse_time_rounding(const std::string& text) {
  const Spec spec = Spec::parse(text);
  TimeRounding rounding;
  if (spec.name == "integer") {
    rounding.kind = TimeRounding::Kind::integer;
    if (!spec.positional.empty()) {
      rounding.levels = static_cast<int>(parse_integer(spec.positional.front(), "levels of time"));
    }
    if (rounding.levels < 1 || rounding.levels > 1000000 || spec.positional.size() > 1) {
      throw usage_error("times integer:LEVELS needs 1 to 1000000 levels, found '{}'", text);
    }
    return rounding;
  }
  if (spec.name == "bf16") rounding.kind = TimeRounding::Kind::bf16;
  if (spec.name != to_string(rounding) || !spec.positional.empty()) {
    throw usage_error("{}", unknown_name("rounding of times", text, {"free", "integer", "bf16"}));
  }
  return rounding;
}

std::string to_string(const TimeRounding& rounding) {
  switch (rounding.kind) {
    case TimeRounding::Kind::free:
      return "free";
    case TimeRounding::Kind::bf16:
      return "bf16";
    default:
      return fmt::format("integer:{}", rounding.levels);
  }
}

std::vector<double> rounded_times(const TimeRounding& rounding, const std::vector<double>& times,
                                  double first) {
  if (rounding.is_free()) return times;
  const double units = rounding.kind == TimeRounding::Kind::integer ? rounding.levels : kNoiseUnits;
  const double most = units * (1 - first);
  std::vector<double> result = times;
  // Noise of the time after, in these units: from the data backwards.
  double before = units * (1 - times.back());
  for (size_t i = times.size() - 1; i-- > 0;) {
    double noise = nearest(rounding, units * (1 - times[i]));
    if (noise > most) noise -= spacing(rounding, noise);
    if (!(noise > before)) noise = above(rounding, before);
    before = noise;
    result[i] = 1 - noise / units;
    if (noise > most) {
      throw usage_error("{} times do not fit into {}; ask for fewer evaluations or more levels",
                        times.size() - 1, to_string(rounding));
    }
  }
  return result;
}

std::vector<double> rounded_times(const TimeRounding& rounding, const std::vector<double>& times,
                                  const Schedule& path) {
  const Jet start = path.trained_time(0);  // the whole path's times are linear in those of a part
  std::vector<double> trained;
  for (const double time : times) {
    if (time < path.last_time()) trained.push_back(path.trained_time(time).value);
  }
  trained.push_back(path.trained_time(1).value);
  trained = rounded_times(rounding, trained, start.value);
  std::vector<double> result = times;
  if (rounding.is_free()) return result;
  for (size_t i = 0; i + 1 < trained.size(); ++i) {
    result[i] = (trained[i] - start.value) / start.first;
  }
  return result;
}

}  // namespace bespoke
