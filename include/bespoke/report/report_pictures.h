#pragma once

#include <string>
#include <vector>

#include "bespoke/report/report.h"

namespace bespoke {

// A part of a report as SVG.
struct ReportPicture {
  std::string name;  // of a file, such as "psnr.svg"
  std::string svg;   // what the file holds
};

// A report's charts as pictures, for where a page cannot go: PSNR against evaluations and
// against the calls that distillation spent, the times and coefficients of each distilled solver,
// and the samples side by side where they are images.
std::vector<ReportPicture> report_pictures(const Report& report);

}  // namespace bespoke
