#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/base/table.h"
#include "bespoke/measure/compare.h"

namespace bespoke {

// What solvers are lined up by: their evaluations, or the network calls these take, which is what
// is fair to solvers that guide themselves.
enum class CostUnit { nfe, network_calls };
CostUnit unit_of(const Comparison& comparison);
int cost_of(const ComparisonRow& row, CostUnit unit);  // a sample
std::string to_string(CostUnit unit);

// A row per solver and a column per cost: of the NFE asked for, or of all network calls there are.
// `cell` gives one figure of a row as it is printed.
using FigureCell = std::function<nlohmann::json(const ComparisonRow&)>;
Table figures_by_cost(const Comparison& comparison, const std::vector<int64_t>& nfes,
                      const FigureCell& cell);
nlohmann::json psnr_cell(const ComparisonRow& row);
nlohmann::json agreement_cell(const ComparisonRow& row);
// None where there is no number: a bin without samples.
nlohmann::json decibel_cell(const ComparisonRow& row, const std::optional<double>& decibels);
nlohmann::json distance_cell(const ComparisonRow& row, const std::optional<double>& distance);

// A row per solver and NFE and a column per bin of the samples' own guidance weights.
Table figures_by_guidance(const Comparison& comparison);

// Every figure of every solver, and of the reference where it has one; for programs also what they
// are of.
Table all_figures(const Comparison& comparison, const std::string& title, bool for_people);

}  // namespace bespoke
