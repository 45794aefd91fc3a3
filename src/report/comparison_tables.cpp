#include "bespoke/report/comparison_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace bespoke {

namespace {

// The columns that CSV and JSON have always had, in their order, whatever was measured. Other
// figures follow them.
constexpr const char* kColumns[] = {
    "psnr_db", "psnr_error_db", "latent_psnr_db", "snr_db", "mse_p05", "mse_median",
    "mse_p95", "ms_per_sample", "model_calls",    "fd_ref", "fd_real", "agreement"};
// Likewise those after all that people see.
constexpr const char* kProgramColumns[] = {"latent_psnr_error_db", "snr_error_db",
                                           "snr_latent_error_db", "snr_decoded_error_db"};

template <class Names>
bool holds(const Names& names, const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

// Figures that differ by orders of magnitude, to as many digits as people compare.
nlohmann::json significant(double value, const char* format) {
  return std::isfinite(value) ? nlohmann::json(fmt::format(fmt::runtime(format), value))
                              : nlohmann::json();
}

FigureColumn column_named(const Comparison& comparison, const std::string& name) {
  for (const auto& column : comparison.columns) {
    if (column.name == name) return column;
  }
  return {name};  // nothing measured it
}

// Whether a figure is shown to people beside all others.
bool is_shown(const FigureColumn& column) {
  return !column.title.empty() && column.heading.empty();
}

// The columns of a table of everything, behind the solver and its NFE.
std::vector<FigureColumn> columns_of(const Comparison& comparison, bool for_people) {
  std::vector<FigureColumn> columns;
  for (const char* name : kColumns) columns.push_back(column_named(comparison, name));
  for (const auto& column : comparison.columns) {
    const bool any =
        std::any_of(comparison.rows.begin(), comparison.rows.end(),
                    [&](const ComparisonRow& row) { return row.figure(column.name).has_value(); });
    if (any && is_shown(column) && !holds(kColumns, column.name)) columns.push_back(column);
  }
  if (for_people) return columns;
  for (const char* name : kProgramColumns) columns.push_back(column_named(comparison, name));
  for (const auto& column : comparison.columns) {
    const bool has_place = holds(kColumns, column.name) || holds(kProgramColumns, column.name);
    if (!is_shown(column) && !has_place) columns.push_back(column);
  }
  return columns;
}

constexpr char kMilliseconds[] = "ms_per_sample", kCalls[] = "model_calls";

Table::Column table_column(const FigureColumn& column) {
  if (column.name == kMilliseconds || column.kind == FigureKind::fraction) {
    return {column.name, true, 3};
  }
  const bool has_digits = column.kind == FigureKind::decibels && column.name != kCalls;
  return has_digits ? Table::Column{column.name, true, 2} : Table::Column{column.name, true};
}

nlohmann::json cell_of(const ComparisonRow& row, const FigureColumn& column, bool for_people) {
  if (column.name == kMilliseconds) return number_or_null(1e3 * row.seconds);
  if (column.name == kCalls) {
    return row.model_calls > 0 ? nlohmann::json(row.model_calls) : nlohmann::json();
  }
  const auto figure = row.figure(column.name);
  if (!figure) return nullptr;
  if (for_people && column.kind == FigureKind::squared_error) return significant(*figure, "{:.2e}");
  if (for_people && column.kind == FigureKind::distance) return significant(*figure, "{:.4g}");
  return number_or_null(*figure);
}

nlohmann::json decibel_cell(double decibels) {
  if (std::isnan(decibels)) return nullptr;
  return std::isfinite(decibels) ? nlohmann::json(decibels) : nlohmann::json("exact");
}

// A figure in a table of its own; null where there is no number.
nlohmann::json lone_cell(const ComparisonRow& row, const FigureColumn& column) {
  if (row.diverged) return "diverged";
  const auto figure = row.figure(column.name);
  if (column.kind == FigureKind::distance) {
    return figure ? significant(*figure, "{:.4g}") : "infinite";
  }
  if (!figure) return nullptr;
  if (column.kind == FigureKind::fraction) return fmt::format("{:.1f}", 100 * *figure);
  if (column.kind == FigureKind::squared_error) return significant(*figure, "{:.2e}");
  const double error = row.figure(column.error).value_or(0);
  if (std::isfinite(*figure) && error > 0) return fmt::format("{:.2f} ± {:.2f}", *figure, error);
  return decibel_cell(*figure);
}

std::set<int> costs_of(const Comparison& comparison, const std::vector<int>& nfes) {
  if (unit_of(comparison) == CostUnit::nfe) return {nfes.begin(), nfes.end()};
  std::set<int> costs;
  for (const auto& row : comparison.rows) costs.insert(row.model_calls);
  return costs;
}

// The columns that share a title, from the first of them on, a row per solver and NFE.
Table figures_of_title(const Comparison& comparison, const std::string& title) {
  std::vector<FigureColumn> shared;
  std::vector<Table::Column> columns = {{"solver"}, {"NFE", true}};
  for (const auto& column : comparison.columns) {
    if (column.title != title) continue;
    shared.push_back(column);
    columns.push_back({column.heading, true, 2});
  }
  Table table(columns);
  for (const auto& row : comparison.rows) {
    std::vector<nlohmann::json> cells = {row.name, row.nfe};
    for (const auto& column : shared) cells.push_back(lone_cell(row, column));
    table.add_row(cells);
  }
  return table;
}

// Every table of figures that share one, each behind an empty line.
std::string shared_tables(const Comparison& comparison, TableFormat format) {
  std::string text;
  std::set<std::string> done;
  for (const auto& column : comparison.columns) {
    if (column.heading.empty() || !done.insert(column.title).second) continue;
    text += "\n" + figures_of_title(comparison, column.title).render(format, column.title);
  }
  return text;
}

}  // namespace

CostUnit unit_of(const Comparison& comparison) {
  const bool any = std::any_of(comparison.rows.begin(), comparison.rows.end(),
                               [](const ComparisonRow& row) { return row.guides_itself; });
  return any ? CostUnit::network_calls : CostUnit::nfe;
}

int cost_of(const ComparisonRow& row, CostUnit unit) {
  return unit == CostUnit::nfe ? row.nfe : row.model_calls;
}

std::string to_string(CostUnit unit) { return unit == CostUnit::nfe ? "NFE" : "network calls"; }

Table figures_by_cost(const Comparison& comparison, const std::vector<int>& nfes,
                      const FigureColumn& column) {
  const CostUnit unit = unit_of(comparison);
  const std::set<int> costs = costs_of(comparison, nfes);
  std::vector<Table::Column> columns = {{"solver"}};
  for (const int cost : costs) columns.push_back({std::to_string(cost), true, 2});
  Table table(columns);
  for (size_t i = 0; i < comparison.rows.size();) {
    const std::string& name = comparison.rows[i].name;
    std::vector<nlohmann::json> cells = {name};
    cells.resize(1 + costs.size());
    for (; i < comparison.rows.size() && comparison.rows[i].name == name; ++i) {
      const ComparisonRow& row = comparison.rows[i];
      const auto place = costs.find(cost_of(row, unit));
      if (place == costs.end()) continue;
      cells[1 + static_cast<size_t>(std::distance(costs.begin(), place))] = lone_cell(row, column);
    }
    table.add_row(cells);
  }
  return table;
}

Table all_figures(const Comparison& comparison, const std::string& title, bool for_people) {
  const std::vector<FigureColumn> figures = columns_of(comparison, for_people);
  std::vector<Table::Column> columns = {{"solver"}, {"nfe", true}};
  for (const auto& figure : figures) columns.push_back(table_column(figure));
  if (!for_people) columns.push_back({"of"});
  Table table(columns);
  const auto add = [&](const ComparisonRow& row) {
    std::vector<nlohmann::json> cells = {row.name, row.nfe};
    for (const auto& figure : figures) cells.push_back(cell_of(row, figure, for_people));
    if (!for_people) cells.push_back(title);
    table.add_row(cells);
  };
  for (const auto& row : comparison.rows) add(row);
  const bool has_figures =
      std::any_of(figures.begin(), figures.end(), [&](const FigureColumn& figure) {
        return comparison.reference.figure(figure.name).has_value();
      });
  if (has_figures) add(comparison.reference);
  return table;
}

std::string tables_by_cost(const Comparison& comparison, const std::vector<int>& nfes,
                           TableFormat format, const std::string& title) {
  const std::string unit = to_string(unit_of(comparison));
  std::string text;
  for (const auto& column : comparison.columns) {
    if (!is_shown(column)) continue;
    const bool first = text.empty();
    const std::string heading =
        first ? column.title + title : column.title + ", by " + unit + column.remark;
    text += (first ? "" : "\n") + figures_by_cost(comparison, nfes, column).render(format, heading);
  }
  return text + shared_tables(comparison, format);
}

std::string table_of_details(const Comparison& comparison, TableFormat format,
                             const std::string& title) {
  std::string heading, distances;
  for (const auto& column : comparison.columns) {
    if (heading.empty() && is_shown(column)) heading = column.title + title;
    if (column.kind == FigureKind::distance) {
      distances += fmt::format("\n{}: {}", column.name, column.title);
    }
  }
  return all_figures(comparison, "", true).render(format, heading + distances) +
         shared_tables(comparison, format);
}

}  // namespace bespoke
