#include <nlohmann/json.hpp>
#include <optional>

#include "sections.h"

namespace bespoke {

namespace {

using nlohmann::json;

json optional_number(const std::optional<double>& value) { return value ? json(*value) : json(); }

json row_json(const ReportRow& row) {
  return {{"solver", row.solver},
          {"cost", row.cost},
          {"psnr", row.psnr},
          {"snr", row.snr},
          {"latent_psnr", optional_number(row.latent_psnr)},
          {"mse_median", row.mse_median},
          {"seconds", row.seconds},
          {"frechet_reference", optional_number(row.frechet_reference)},
          {"frechet_real", optional_number(row.frechet_real)},
          {"agreement", optional_number(row.agreement)},
          {"distilled", row.distilled},
          {"psnr_error", row.psnr_error}};
}

const char* kind_name(CostNeeded::Kind kind) {
  switch (kind) {
    case CostNeeded::Kind::interpolated:
      return "interpolated";
    case CostNeeded::Kind::at_most:
      return "at_most";
    case CostNeeded::Kind::more_than:
      return "more_than";
    case CostNeeded::Kind::never:
      break;
  }
  return "never";
}

json finding_json(const Finding& finding) {
  json needed = json::array();
  std::vector<BaselineNeed> needs = finding.needs;
  // Its name is too long for a label, and is in the headline.
  if (finding.catalogue) needs.push_back({"best of the catalogue", finding.catalogue->needed});
  for (const auto& need : needs) {
    needed.push_back({{"solver", need.solver},
                      {"cost", need.needed.cost},
                      {"kind", kind_name(need.needed.kind)},
                      {"text", to_string(need.needed)}});
  }
  return {{"solver", finding.row.solver},
          {"cost", finding.row.cost},
          {"psnr", finding.row.psnr},
          {"needed", needed}};
}

json point_json(const TrainingPoint& point) {
  return {{"start", point.start},
          {"iteration", point.iteration},
          {"loss", point.loss},
          {"validation_psnr", optional_number(point.validation_psnr)}};
}

json curve_json(const TrainingCurve& curve) {
  json points = json::array();
  for (const auto& point : curve.points) points.push_back(point_json(point));
  const auto best = best_iterate(curve.points);
  return {{"solver", curve.solver},
          {"cost", curve.cost},
          {"best", best ? point_json(*best) : json()},
          {"points", points}};
}

}  // namespace

std::string report_data(const Report& report, const std::vector<Finding>& findings,
                        const Finding* best) {
  json data = {{"unit", report.unit},
               {"rows", json::array()},
               {"targets", json::array()},
               {"training", json::array()}};
  for (const auto& row : report.rows) data["rows"].push_back(row_json(row));
  for (const auto& finding : findings) data["targets"].push_back(finding_json(finding));
  for (const auto& curve : report.training) data["training"].push_back(curve_json(curve));
  data["featured"] =
      best == nullptr ? json() : json({{"solver", best->row.solver}, {"cost", best->row.cost}});
  // Names come from users and need not be UTF-8; figures that are not finite become null.
  return data.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace bespoke
