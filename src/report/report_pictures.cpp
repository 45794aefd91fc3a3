#include "bespoke/report/report_pictures.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "bespoke/io/image.h"
#include "bespoke/report/comparison_grid.h"
#include "findings.h"
#include "report_charts.h"

namespace bespoke {

namespace {

std::string measured_detail(const ReportSamples& samples, const Report& report) {
  if (samples.cost == 0) return "what is reproduced";
  const auto psnr = measured_psnr(report, samples);
  return fmt::format("{}{}", counted(samples.cost, report),
                     psnr ? fmt::format(", {:.1f} dB", *psnr) : "");
}

// A row for each solver and a column for each noise.
ComparisonGrid sample_grid(const Report& report) {
  const ReportGallery& gallery = report.gallery;
  ComparisonGrid grid{report.model + ": the same noise, side by side", report.of, {}, {}};
  const auto add = [&](const ReportSamples& samples) {
    grid.rows.push_back({{samples.solver, measured_detail(samples, report), samples.distilled},
                         to_bytes(samples.values.to(torch::kCPU), gallery.least, gallery.most)});
  };
  add(gallery.reference);
  for (const auto& samples : gallery.others) {
    if (gallery.shown_cost == 0 || samples.cost == gallery.shown_cost) add(samples);
  }
  return grid;
}

// A row for each prompt, which is too long for the top of a column, and a column for each solver.
ComparisonGrid prompt_grid(const Report& report) {
  const ComparisonGrid solvers = sample_grid(report);
  ComparisonGrid grid{report.model + ": what each solver makes of a prompt", report.of, {}, {}};
  std::vector<torch::Tensor> images;
  for (const auto& row : solvers.rows) {
    grid.columns.push_back(row.label);
    images.push_back(row.images);
  }
  const torch::Tensor all = torch::stack(images, 1);
  for (size_t i = 0; i < report.gallery.prompts.size(); ++i) {
    grid.rows.push_back({{report.gallery.prompts[i], "", false}, all[static_cast<int64_t>(i)]});
  }
  return grid;
}

// A name that is safe in a file's: names of solvers may be paths.
std::string file_stem(const ReportSolver& entry) {
  std::string stem = fmt::format("{}-nfe{}", entry.solver, entry.numbers.nfe());
  for (char& c : stem) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '-';
  }
  return stem;
}

}  // namespace

std::vector<ReportPicture> report_pictures(const Report& report) {
  std::vector<ReportPicture> pictures;
  // Solvers that diverged or are exact have no place on the chart.
  const bool any = std::any_of(report.rows.begin(), report.rows.end(),
                               [](const ReportRow& row) { return std::isfinite(row.psnr); });
  if (any) pictures.push_back({"psnr.svg", line_chart_svg(quality_chart(report))});
  const bool logged =
      std::any_of(report.training.begin(), report.training.end(),
                  [](const TrainingCurve& curve) { return !psnr_by_calls(curve).empty(); });
  if (logged) pictures.push_back({"calls.svg", line_chart_svg(calls_chart(report))});
  for (const auto& entry : report.solvers) {
    const std::string whose = entry.solver + ", " + counted(entry.cost, report);
    pictures.push_back({fmt::format("times-{}.svg", file_stem(entry)),
                        time_grid_svg(entry.numbers, "Times of " + whose, report.of)});
    pictures.push_back({fmt::format("coefficients-{}.svg", file_stem(entry)),
                        heat_map_svg(entry.numbers, "Coefficients of " + whose, report.of)});
  }
  const torch::Tensor& values = report.gallery.reference.values;
  if (values.defined() && values.dim() == 4) {
    pictures.push_back(
        {"samples.svg", comparison_grid_svg(report.gallery.prompts.empty() ? sample_grid(report)
                                                                           : prompt_grid(report))});
  }
  return pictures;
}

}  // namespace bespoke
