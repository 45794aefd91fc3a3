#pragma once

#include <string>
#include <vector>

#include "bespoke/base/table.h"
#include "bespoke/measure/compare.h"

namespace bespoke {

// What solvers are lined up by: their evaluations, or the network calls these take, which is what
// is fair to solvers with built-in guidance.
enum class CostUnit { nfe, network_calls };
// Network calls where a solver has built-in guidance, otherwise evaluations.
CostUnit unit_of(const Comparison& comparison);
int cost_of(const ComparisonRow& row, CostUnit unit);  // per sample
// "NFE" or "network calls".
std::string to_string(CostUnit unit);

// Of one figure, a row per solver and a column per cost: of the NFE asked for, or of all network
// calls there are.
Table figures_by_cost(const Comparison& comparison, const std::vector<int>& nfes,
                      const FigureColumn& column);

// Every figure of every solver, and of the reference where it has one; for programs also standard
// errors and what the figures are of.
Table all_figures(const Comparison& comparison, const std::string& title, bool for_people);

// For people: a table for each figure with a title, by NFE or network calls. `title` heads the
// first, behind its own.
std::string tables_by_cost(const Comparison& comparison, const std::vector<int>& nfes,
                           TableFormat format, const std::string& title);

// For people: one table of every figure, a row per solver and NFE.
std::string table_of_details(const Comparison& comparison, TableFormat format,
                             const std::string& title);

}  // namespace bespoke
