#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bespoke/report/equal_quality.h"
#include "bespoke/report/report.h"

namespace bespoke {

// What a baseline needs for the PSNR of a distilled solver.
struct BaselineNeed {
  std::string solver;
  CostNeeded needed;
};

// One distilled solver and what every baseline, in the order of the rows, needs to be as good.
struct Finding {
  ReportRow row;
  std::vector<BaselineNeed> needs;
  std::vector<BaselineNeed> needs_of_distilled;  // of the other distilled solvers
  std::optional<BaselineNeed> catalogue;         // of its best; of the featured finding alone

  // The other solver, distilled or not, that needs fewest evaluations; none where none came to an
  // end. Where none measured gets there, the catalogue's best, whose bound is the highest.
  const BaselineNeed* rival() const;
  // Its evaluations over the distilled solver's own; 0 without a rival.
  double saving() const;
};

// For every distilled solver that did not diverge, in the order of the rows.
std::vector<Finding> findings(const Report& report);

// The finding of the headline: the report's featured solver, or else the greatest saving.
const Finding* featured(const std::vector<Finding>& findings, const Report& report);

// A solver known to get there comes before one of which only a bound is known.
bool needs_less(const BaselineNeed& left, const BaselineNeed& right);

// Whether it is the finding of this solver at this cost; nothing is where there is none.
bool is_of(const Finding* finding, const std::string& solver, int cost);

// "8 evaluations", in the report's unit.
std::string counted(int cost, const Report& report);

// "47.4 ± 0.3 dB", or without an error where none is known.
std::string decibels(const ReportRow& row);

// The PSNR of the row with the samples' name and evaluations; none where it was not measured.
std::optional<double> measured_psnr(const Report& report, const ReportSamples& samples);

// The solver names of rows that are not distilled, each once.
std::vector<std::string> baseline_names(const Report& report);

}  // namespace bespoke
