#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bespoke/jobs/compare_job.h"
#include "bespoke/measure/compare.h"
#include "bespoke/report/comparison_tables.h"
#include "bespoke/report/report.h"

namespace bespoke {

// How many samples of each solver a report shows.
constexpr int64_t kReportSamples = 10;

// Figures of fewer samples than this come with a warning.
constexpr int64_t kEnoughSamples = 16;
// That warning: a sentence with a space before it; empty from kEnoughSamples on.
std::string few_samples_note(int64_t count);

// How many of the samples the search for the catalogue's best looks at.
inline int64_t searched_samples(int64_t count) { return std::min<int64_t>(count, 4); }

// As a report calls a row: files by their families where that says which, otherwise by their paths.
std::string line_name(const ModelComparison& compared, const ComparisonRow& row);

// The distilled solver that is farthest ahead of the best other, distilled or not, of the same
// cost. Where none has a rival, the nearest to the reference; null where one has and none is ahead.
const ComparisonRow* featured_row(const ModelComparison& compared);

// What the figures come to, in a sentence or two that name solvers as their rows do; empty where no
// distilled solver is among them.
std::string finding_of(const ModelComparison& compared);

// The comparison as a page shows it, with the commands that it was made by. Solver files become the
// distilled solvers, each with the training that its run left beside it.
Report make_report(const ModelComparison& compared, const std::vector<std::string>& commands);

}  // namespace bespoke
