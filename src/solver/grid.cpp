#include "bespoke/solver/grid.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "bespoke/base/error.h"
#include "bespoke/base/spec.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/lowering.h"
#include "published_grids.h"

namespace bespoke {

using namespace detail;

namespace {

using Times = std::vector<double>;

// Published noise levels have eight digits or so: what is that near to the largest is the largest.
constexpr double kPublishedDigits = 1e-6;

// from + (to - from) i / steps, both ends exact.
Times linear(double from, double to, int steps) {
  Times values(static_cast<size_t>(steps) + 1);
  for (int i = 0; i <= steps; ++i) {
    values[static_cast<size_t>(i)] = i == steps ? to : from + (to - from) * i / steps;
  }
  return values;
}

struct Span {
  double start, end;
};

Span read_span(const Spec& spec) {
  const Span span = {spec.number("start", 0), spec.number("end", 1)};
  if (!(span.start >= 0 && span.start < span.end && span.end <= 1)) {
    throw usage_error("grid {}: needs 0 <= start < end <= 1, found start = {}, end = {}", spec.name,
                      span.start, span.end);
  }
  return span;
}

Times uniform_t(const Spec& spec, int steps, const Schedule&) {
  const Span span = read_span(spec);
  return linear(span.start, span.end, steps);
}

// The log-SNR at the last time at which the network is asked.
double last_lambda(const Schedule& schedule) { return schedule.lambda(schedule.last_time()); }

// Uniform in log-SNR. Where an end has infinite log-SNR the spacing is that of a range `margin`
// inside it, and the outermost node is put on the end itself.
Times uniform_lambda(const Spec& spec, int steps, const Schedule& schedule) {
  const Span span = read_span(spec);
  const double margin = spec.number("margin", 1e-3);
  if (!(margin > 0 && margin < 0.5 * (span.end - span.start))) {
    throw usage_error(
        "grid uniform-lambda: margin must be positive and less than half the span, "
        "found {}",
        margin);
  }
  double first = schedule.lambda(span.start);
  double last = schedule.lambda(span.end);
  if (std::isinf(first)) first = schedule.lambda(span.start + margin);
  if (std::isinf(last)) last = schedule.lambda(span.end - margin);
  last = std::min(last, last_lambda(schedule));
  Times times = linear(first, last, steps);
  for (double& value : times) value = schedule.time_at_lambda(value);
  times.front() = span.start;
  times.back() = span.end;
  return times;
}

constexpr double kRangeFrom = -3.5;  // log-SNR where samples begin to show

// Uniform in log-SNR from where samples begin to show towards where they are all but done, the last
// node moved from there to the end. What lies before is skipped, by starting from the noise as it
// is there. A positive bend makes the first steps longer and the last ones shorter.
Times lambda_range(const Spec& spec, int steps, const Schedule& schedule) {
  const double from = std::max(spec.number("from", kRangeFrom), schedule.lambda(0));
  const double to = std::min(spec.number("to", 4.5), last_lambda(schedule));
  const double bend = spec.number("bend", 0);
  Times times = linear(0, 1, steps);
  for (double& value : times) {
    value = schedule.time_at_lambda(from + (to - from) * (value + bend * value * (1 - value)));
  }
  if (from == schedule.lambda(0)) times.front() = 0;  // exactly, not to rounding
  times.back() = 1;
  const bool rises =
      std::adjacent_find(times.begin(), times.end(), std::greater_equal<double>()) == times.end();
  if (!(from < to) || !(std::abs(bend) < 1) || !rises) {
    throw usage_error(
        "grid lambda-range: needs from < to, both log-SNRs the schedule can tell from its ends, "
        "and -1 < bend < 1, found from = {}, to = {}, bend = {}",
        from, to, bend);
  }
  return times;
}

// Noise time s = 1 - t falls quadratically: dense near the data.
Times quadratic(const Spec& spec, int steps, const Schedule&) {
  const Span span = read_span(spec);
  Times times = linear(std::sqrt(1 - span.start), std::sqrt(1 - span.end), steps);
  for (double& value : times) value = 1 - value * value;
  times.front() = span.start;
  times.back() = span.end;
  return times;
}

// Karras et al.: sigma / alpha from sigma_max to sigma_min in steps - 1 steps, linear in its
// rho-th root, then a last step to zero. Where the path ends at sigma_min or above it there is no
// such step.
Times karras(const Spec& spec, int steps, const Schedule& schedule) {
  const double rho = spec.number("rho", 7);
  const double least_noise = std::exp(-last_lambda(schedule));
  const double sigma_min = std::max(spec.number("sigma_min", 0.002), least_noise);
  const double most_noise = 1 / schedule.snr(0);
  const double sigma_max = std::min(spec.number("sigma_max", 80), most_noise);
  if (!(rho > 0 && sigma_min > 0 && sigma_min < sigma_max)) {
    throw usage_error(
        "grid karras: needs rho > 0 and 0 < sigma_min < sigma_max, found rho = {}, sigma_min = {}, "
        "sigma_max = {}",
        rho, sigma_min, sigma_max);
  }
  const double first = std::pow(sigma_max, 1 / rho);
  const double last = std::pow(sigma_min, 1 / rho);
  const bool ends_there = sigma_min == least_noise && schedule.last_time() == 1;
  const int falling = ends_there ? steps : steps - 1;
  Times times = falling == 0 ? Times{first} : linear(first, last, falling);
  for (double& value : times) value = schedule.time_at_snr(std::pow(value, -rho));
  if (sigma_max == most_noise) times.front() = 0;  // exactly, not to rounding
  if (ends_there) times.pop_back();
  times.push_back(1);
  return times;
}

// Flow shift: sigma -> k sigma / (1 + (k - 1) sigma) with sigma = 1 - t, more steps near the noise
// for k > 1.
Times shift(const Spec& spec, int steps, const Schedule&) {
  const Span span = read_span(spec);
  const double k = spec.number("shift", 3);
  if (!(k > 0)) throw usage_error("grid shift: shift must be positive, found {}", k);
  const auto unshift = [k](double t) { return t * k / (1 + (k - 1) * t); };
  Times times = linear(unshift(span.start), unshift(span.end), steps);
  for (double& value : times) value = value / (k + (1 - k) * value);
  times.front() = span.start;
  times.back() = span.end;
  return times;
}

Times custom(const Spec& spec, int steps, const Schedule&) {
  if (!spec.options.empty()) throw usage_error("grid custom takes times only, as custom:0,0.5,1");
  Times times;
  for (const auto& item : spec.positional) times.push_back(parse_number(item, "grid custom"));
  if (times.size() != static_cast<size_t>(steps) + 1) {
    throw usage_error("grid custom: {} steps need {} times, found {}", steps, steps + 1,
                      times.size());
  }
  for (size_t i = 0; i < times.size(); ++i) {
    if (!(times[i] >= 0 && times[i] <= 1) || (i > 0 && times[i] <= times[i - 1])) {
      throw usage_error(
          "grid custom: times must rise strictly within 0 ... 1, found {} at index {}", times[i],
          i);
    }
  }
  return times;
}

void check_rising(const Times& times, const std::string& what) {
  for (size_t i = 1; i < times.size(); ++i) {
    if (times[i] > times[i - 1]) continue;
    throw usage_error(
        "{} must fall from the most noise this schedule has, or less: entries {} and {} are t = {} "
        "and {}",
        what, i - 1, i, times[i - 1], times[i]);
  }
}

// The times of falling noise levels, each turned into a time by `time_of`, and the data's behind
// them unless they reach it.
template <class TimeOf>
Times from_levels(const std::vector<double>& levels, const std::string& what, TimeOf time_of) {
  Times times;
  for (const double level : levels) times.push_back(time_of(level));
  if (times.empty() || times.back() < 1) times.push_back(1);
  check_rising(times, what);
  return times;
}

Times from_numbers(const Spec& spec, int steps, const std::function<Times(const Times&)>& convert) {
  if (!spec.options.empty()) {
    throw usage_error("grid {} takes numbers only, as {}:981,500,19", spec.name, spec.name);
  }
  Times numbers;
  for (const auto& item : spec.positional) {
    numbers.push_back(parse_number(item, "grid " + spec.name));
  }
  Times times = convert(numbers);
  if (times.size() != static_cast<size_t>(steps) + 1) {
    throw usage_error("grid {}: {} steps begin at {} numbers, found {}", spec.name, steps, steps,
                      times.size() - 1);
  }
  return times;
}

Times sigmas(const Spec& spec, int steps, const Schedule& schedule) {
  return from_numbers(spec, steps,
                      [&](const Times& list) { return times_of_sigmas(schedule, list); });
}

Times timesteps(const Spec& spec, int steps, const Schedule& schedule) {
  return from_numbers(spec, steps,
                      [&](const Times& list) { return times_of_timesteps(schedule, list); });
}

std::string model_option(const Spec& spec, const std::string& fallback) {
  const auto option = spec.options.find("model");
  return option == spec.options.end() ? fallback : option->second;
}

double time_at_ratio(const Schedule& schedule, double ratio) {
  const double most = 1 / schedule.snr(0), least = 1 / schedule.snr(1);
  if (ratio >= most * (1 - kPublishedDigits)) return 0;
  return ratio <= least * (1 + kPublishedDigits) ? 1 : schedule.time_at_snr(1 / ratio);
}

Times ays(const Spec& spec, int steps, const Schedule& schedule) {
  return from_levels(ays_levels(model_option(spec, "sd15"), steps), "noise levels of the grid ays",
                     [&](double ratio) { return time_at_ratio(schedule, ratio); });
}

Times gits(const Spec&, int steps, const Schedule& schedule) {
  return from_levels(gits_levels(steps), "noise levels of the grid gits",
                     [&](double ratio) { return time_at_ratio(schedule, ratio); });
}

Times optimal_steps(const Spec& spec, int steps, const Schedule& schedule) {
  return from_levels(optimal_steps_levels(model_option(spec, "flux"), steps),
                     "noise levels of the grid optimal-steps",
                     [&](double sigma) { return time_at_ratio(schedule, sigma / (1 - sigma)); });
}

// Extreme options leave no room between times.
void check_times(const Times& times, const std::string& name) {
  bool good = times.front() >= 0 && times.back() <= 1;
  for (size_t i = 1; i < times.size(); ++i) good = good && times[i] > times[i - 1];
  if (!good) {
    throw usage_error("grid {}: its times do not rise from 0 to 1; choose milder options", name);
  }
}

}  // namespace

std::vector<double> times_of_sigmas(const Schedule& schedule, const std::vector<double>& sigmas) {
  const bool flow = is_flow(schedule);
  return from_levels(sigmas, "sigmas", [&](double sigma) {
    if (!(sigma >= 0) || (flow && sigma > 1)) {
      throw usage_error("a sigma must not be negative{}, found {}",
                        flow ? ", nor above 1 on a flow path" : "", sigma);
    }
    return time_at_ratio(schedule, flow ? sigma / (1 - sigma) : sigma);
  });
}

std::vector<double> times_of_timesteps(const Schedule& schedule,
                                       const std::vector<double>& timesteps) {
  constexpr double kUsual = 1000;
  if (is_part(schedule)) {
    throw usage_error("timesteps count the levels of a whole path, and {} is a part of one",
                      schedule.describe().dump());
  }
  const auto schedule_levels = static_cast<double>(discrete_levels(schedule));
  const double levels = schedule_levels > 0 ? schedule_levels : kUsual;
  return from_levels(timesteps, "timesteps", [&](double step) {
    const double t = 1 - (schedule_levels > 0 ? step + 1 : step) / levels;
    if (!(t >= 0 && t <= 1)) {
      throw usage_error("a timestep must be from 0 to {}, found {}",
                        schedule_levels > 0 ? levels - 1 : levels, step);
    }
    return t;
  });
}

const std::vector<GridEntry>& grid_registry() {
  static const std::vector<GridEntry> registry = {
      {"uniform-t", "equal steps in t", {"start", "end"}, uniform_t},
      {"uniform-lambda", "equal steps in log-SNR", {"start", "end", "margin"}, uniform_lambda},
      {"lambda-range",
       "equal steps in log-SNR from one value (-3.5) towards another (4.5), the last to the end",
       {"from", "to", "bend"},
       lambda_range},
      {"quadratic",
       "noise time falls quadratically, dense near the data",
       {"start", "end"},
       quadratic},
      {"karras",
       "sigma / alpha falls linearly in its rho-th root, then to zero",
       {"rho", "sigma_min", "sigma_max"},
       karras},
      {"shift",
       "flow shift: sigma -> k sigma / (1 + (k - 1) sigma)",
       {"shift", "start", "end"},
       shift},
      {"ays",
       "Align Your Steps' noise levels for a model: sd15, sdxl or svd",
       {"model"},
       ays,
       GridKind::published},
      {"gits",
       "GITS's noise levels for Stable Diffusion (coefficient 1.2)",
       {},
       gits,
       GridKind::published},
      {"optimal-steps",
       "OptimalSteps' noise levels for a flow model: flux or wan",
       {"model"},
       optimal_steps,
       GridKind::published},
      {"sigmas",
       "falling sigmas as other tools count them, comma-separated; the data's 0 may be left out",
       {},
       sigmas,
       GridKind::numbers},
      {"timesteps",
       "falling indices of noise levels, as 999,666,333; the last step is to the data",
       {},
       timesteps,
       GridKind::numbers},
      {"custom", "the times themselves, comma-separated", {}, custom, GridKind::numbers},
  };
  return registry;
}

std::vector<double> make_grid(const std::string& text, int steps, const Schedule& schedule) {
  const Spec spec = Spec::parse(text);
  std::vector<std::string> names;
  for (const auto& entry : grid_registry()) {
    names.push_back(entry.name);
    if (entry.name != spec.name) continue;
    if (entry.kind != GridKind::numbers) spec.allow_only(entry.options);
    Times times = entry.make(spec, steps, schedule);
    check_times(times, spec.name);
    return times;
  }
  throw Error(ErrorKind::usage, unknown_name("grid", spec.name, names));
}

std::string grid_from(const std::string& text, double start, const Schedule& schedule) {
  const Spec spec = Spec::parse(text);
  std::string key = "start";
  double value = start;
  if (spec.name == "karras") {
    key = "sigma_max";
    value = std::min(80.0, 1 / schedule.snr(start));
  } else if (spec.name == "lambda-range") {
    key = "from";
    value = std::max(kRangeFrom, schedule.lambda(start));
  }
  for (const auto& entry : grid_registry()) {
    if (entry.name == spec.name && entry.kind != GridKind::rule) return text;
  }
  if (spec.options.count(key) == 1) return text;
  return fmt::format("{}{}{}={}", text, spec.options.empty() ? ":" : ",", key, exact(value));
}

}  // namespace bespoke
