#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/measure/compare.h"
#include "bespoke/report/report.h"
#include "options/model_options.h"
#include "options/samples_options.h"
#include "runs/filled_gaps.h"

namespace bespoke {

// A comparison as the command made it.
struct ComparedModel {
  const OpenModel& open;
  const ChosenSamples& chosen;
  const Comparison& figures;
  const std::map<std::string, SolverFile>& files;  // the rows that are files, by their names
  const std::vector<std::string>& notes;           // what to say of the rows, for people
  bool decoded;                                    // whether the errors are of what is decoded
  double tolerance;
  std::string counted_part;          // ", in the filled spans": what errors are of, if not of all
  const FilledGaps* gaps = nullptr;  // where they are filled
  std::optional<CatalogueNeed> catalogue = std::nullopt;  // of the featured row, in evaluations
};

// How many samples of each solver a report shows.
constexpr int64_t kReportSamples = 10;

// Fewer than this get a word, with a space before it.
constexpr int64_t kEnoughSamples = 16;
std::string few_samples_note(int64_t count);

// How many of the samples the search for the catalogue's best looks at.
inline int64_t searched_samples(int64_t count) { return std::min<int64_t>(count, 4); }

// As a report calls a row: files by their families where that says which, otherwise by their paths.
std::string line_name(const ComparedModel& compared, const ComparisonRow& row);

// The distilled solver that is farthest ahead of the best other, distilled or not, of the same
// cost. Where none has a rival, the nearest to the reference; null where one has and none is ahead.
const ComparisonRow* featured_row(const ComparedModel& compared);

// What the figures come to, in a sentence or two that name solvers as their rows do; empty where no
// distilled solver is among them.
std::string finding_of(const ComparedModel& compared);

// The comparison as a page shows it. Solver files become the distilled solvers, each with the
// training that its run left beside it.
Report make_report(const ComparedModel& compared);

}  // namespace bespoke
