#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/measure/compare.h"
#include "bespoke/report/table.h"

namespace bespoke {

// A row per solver and a column per NFE; `cell` gives one figure of a row as it is printed.
using FigureCell = std::function<nlohmann::json(const ComparisonRow&)>;
Table figures_by_nfe(const Comparison& comparison, const std::vector<int64_t>& nfes,
                     const FigureCell& cell);
nlohmann::json psnr_cell(const ComparisonRow& row);
nlohmann::json agreement_cell(const ComparisonRow& row);
nlohmann::json distance_cell(const ComparisonRow& row, const std::optional<double>& distance);

// A row per solver and NFE and a column per bin of the samples' own guidance weights.
Table figures_by_guidance(const Comparison& comparison);

// Every figure of every solver, and of the reference where it has one; for programs also what they
// are of.
Table all_figures(const Comparison& comparison, const std::string& title, bool for_people);

}  // namespace bespoke
