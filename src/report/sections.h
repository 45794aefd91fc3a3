#pragma once

#include <string>
#include <vector>

#include "bespoke/report/report.h"
#include "findings.h"

namespace bespoke {

// The parts of the page, as HTML; each is empty where the report has nothing for it.

// What was achieved, in two sentences, and its figures as tiles.
std::string headline_html(const Report& report, const Finding* best);
std::string tiles_html(const Report& report, const Finding* best);

std::string figures_table_html(const Report& report);
// The figures to be downloaded, but for times, which are of a machine.
std::string figures_csv(const Report& report);
std::string equal_table_html(const Report& report, const std::vector<Finding>& findings);
std::string quality_html(const Report& report);
std::string equal_charts_html(const Report& report, const std::vector<Finding>& findings,
                              const Finding* best);
std::string frechet_charts_html(const Report& report);
std::string training_html(const Report& report, const Finding* best);
std::string solvers_html(const Report& report, const Finding* best);
std::string gallery_html(const Report& report);
std::string commands_html(const Report& report);
std::string provenance_html(const Report& report);

}  // namespace bespoke
