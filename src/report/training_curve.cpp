#include "bespoke/report/training_curve.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

namespace {

bool is_number(const nlohmann::json& line, const char* key) {
  return line.contains(key) && line[key].is_number();
}

bool is_count(const nlohmann::json& line, const char* key) {
  return is_number(line, key) && line[key].is_number_unsigned() &&
         line[key].get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int>::max());
}

int64_t count_of(const nlohmann::json& line, const char* key) {
  return is_count(line, key) ? line[key].get<int64_t>() : 0;
}

}  // namespace

std::vector<TrainingPoint> parse_training_log(const std::string& text) {
  std::vector<TrainingPoint> points;
  for (const auto& row : split(text, '\n')) {
    const auto line = try_parse_json(row);
    // A loss that is no number is logged as null; there is no point to draw.
    if (!line.is_object() || !is_count(line, "iteration") || !is_number(line, "loss")) continue;
    TrainingPoint point;
    point.start = static_cast<int>(count_of(line, "start"));
    point.iteration = line["iteration"].get<int>();
    point.loss = line["loss"].get<double>();
    point.calls = count_of(line, "forwards") + 2 * count_of(line, "vjps");
    if (is_number(line, "validation_psnr")) point.validation_psnr = line["validation_psnr"];
    points.push_back(point);
  }
  return points;
}

std::vector<std::pair<double, double>> psnr_by_calls(const TrainingCurve& curve) {
  std::vector<std::pair<double, double>> points;
  const auto add = [&](double calls, const std::optional<double>& psnr) {
    if (!psnr || (!points.empty() && *psnr <= points.back().second)) return;
    points.emplace_back(std::max(calls, 1.0), *psnr);
  };
  add(curve.calls_before, curve.initial_psnr);
  for (const auto& point : curve.points) {
    add(curve.calls_before + static_cast<double>(point.calls), point.validation_psnr);
  }
  return points;
}

std::optional<TrainingPoint> best_iterate(const std::vector<TrainingPoint>& points) {
  std::optional<TrainingPoint> best;
  for (const auto& point : points) {
    if (!point.validation_psnr) continue;
    if (!best || *point.validation_psnr > *best->validation_psnr) best = point;
  }
  return best;
}

}  // namespace bespoke
