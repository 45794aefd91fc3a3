#include "runs/compare_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace bespoke {

namespace {

nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

nlohmann::json number_or_null(const std::optional<double>& value) {
  return value ? number_or_null(*value) : nlohmann::json();
}

// Figures that differ by orders of magnitude, to as many digits as people compare.
nlohmann::json significant(double value, const char* format) {
  return std::isfinite(value) ? nlohmann::json(fmt::format(fmt::runtime(format), value))
                              : nlohmann::json();
}

std::vector<nlohmann::json> figure_cells(const ComparisonRow& row, bool for_people) {
  const auto error = [&](double mse) {
    return for_people ? significant(mse, "{:.2e}") : number_or_null(mse);
  };
  const auto distance = [&](const std::optional<double>& value) {
    return for_people && value ? significant(*value, "{:.4g}") : number_or_null(value);
  };
  return {row.name,
          row.nfe,
          number_or_null(row.psnr),
          number_or_null(row.psnr_error),
          number_or_null(row.latent_psnr),
          number_or_null(row.snr),
          error(row.mse_low),
          error(row.mse_median),
          error(row.mse_high),
          number_or_null(1e3 * row.seconds),
          row.model_calls > 0 ? nlohmann::json(row.model_calls) : nlohmann::json(),
          distance(row.frechet_to_reference),
          distance(row.frechet_to_real),
          number_or_null(row.agreement)};
}

void add_bin_columns(const Comparison& comparison, const char* figure,
                     std::vector<Table::Column>& columns) {
  for (const auto& bin : comparison.guidance_bins) {
    columns.push_back({fmt::format("{}_w_{:g}_to_{:g}", figure, bin.from, bin.to), true, 2});
  }
}

// The figures of a row's bins; none of the reference, which is not measured.
void add_bin_cells(const Comparison& comparison, const std::vector<double>& figures,
                   std::vector<nlohmann::json>& cells) {
  for (size_t i = 0; i < comparison.guidance_bins.size(); ++i) {
    cells.push_back(i < figures.size() ? number_or_null(figures[i]) : nlohmann::json());
  }
}

// Figures that only some comparisons have, each with a column of its own.
struct OptionalFigure {
  const char* column;
  std::optional<double> ComparisonRow::*figure;
};
constexpr OptionalFigure kSoundFigures[] = {{"snr_latent_db", &ComparisonRow::latent_snr},
                                            {"snr_decoded_db", &ComparisonRow::decoded_snr},
                                            {"joint_flux_db", &ComparisonRow::joint_flux}};

std::vector<OptionalFigure> sound_figures(const Comparison& comparison) {
  std::vector<OptionalFigure> present;
  for (const auto& one : kSoundFigures) {
    const bool any = std::any_of(comparison.rows.begin(), comparison.rows.end(),
                                 [&](const ComparisonRow& row) { return row.*one.figure; });
    if (any) present.push_back(one);
  }
  return present;
}

// What only programs read: standard errors, figures by guidance, and of what all of it is.
void add_program_columns(const Comparison& comparison, std::vector<Table::Column>& columns) {
  for (const char* name :
       {"latent_psnr_error_db", "snr_error_db", "snr_latent_error_db", "snr_decoded_error_db"}) {
    columns.push_back({name, true, 2});
  }
  add_bin_columns(comparison, "psnr_error_db", columns);
  add_bin_columns(comparison, "psnr_db", columns);
  columns.push_back({"of"});
}

void add_program_cells(const Comparison& comparison, const ComparisonRow& row,
                       std::vector<nlohmann::json>& cells) {
  cells.push_back(number_or_null(row.latent_psnr_error));
  cells.push_back(number_or_null(row.snr_error));
  cells.push_back(number_or_null(row.latent_snr_error));
  cells.push_back(number_or_null(row.decoded_snr_error));
  add_bin_cells(comparison, row.psnr_by_guidance_errors, cells);
  add_bin_cells(comparison, row.psnr_by_guidance, cells);
}

// The reference as one of the solvers: at no distance from itself, at some from real data.
ComparisonRow reference_row(const Comparison& comparison) {
  ComparisonRow row;
  row.name = "reference";
  row.nfe = static_cast<int>(std::lround(comparison.reference_evaluations));
  row.psnr = row.psnr_error = row.snr = row.mse_low = row.mse_median = row.mse_high = row.seconds =
      NAN;
  row.frechet_to_real = comparison.reference_frechet_to_real;
  row.agreement = comparison.reference_agreement;
  row.joint_flux = comparison.reference_joint_flux;
  row.snr_error = NAN;
  return row;
}

}  // namespace

nlohmann::json psnr_cell(const ComparisonRow& row) {
  const bool known = std::isfinite(row.psnr) && row.psnr_error > 0;
  if (!known) return decibel_cell(row, row.psnr);
  return fmt::format("{:.2f} ± {:.2f}", row.psnr, row.psnr_error);
}

nlohmann::json agreement_cell(const ComparisonRow& row) {
  if (row.diverged) return "diverged";
  return row.agreement ? nlohmann::json(fmt::format("{:.1f}", 100 * *row.agreement))
                       : nlohmann::json();
}

nlohmann::json decibel_cell(const ComparisonRow& row, const std::optional<double>& decibels) {
  if (row.diverged) return "diverged";
  if (!decibels || std::isnan(*decibels)) return nullptr;
  return std::isfinite(*decibels) ? nlohmann::json(*decibels) : nlohmann::json("exact");
}

nlohmann::json distance_cell(const ComparisonRow& row, const std::optional<double>& distance) {
  if (distance) return significant(*distance, "{:.4g}");
  return row.diverged ? "diverged" : "infinite";
}

namespace {

std::set<int64_t> costs_of(const Comparison& comparison, const std::vector<int64_t>& nfes) {
  if (unit_of(comparison) == CostUnit::nfe) return {nfes.begin(), nfes.end()};
  std::set<int64_t> costs;
  for (const auto& row : comparison.rows) costs.insert(row.model_calls);
  return costs;
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

Table figures_by_cost(const Comparison& comparison, const std::vector<int64_t>& nfes,
                      const FigureCell& cell) {
  const CostUnit unit = unit_of(comparison);
  const std::set<int64_t> costs = costs_of(comparison, nfes);
  std::vector<Table::Column> columns = {{"solver"}};
  for (const int64_t one : costs) columns.push_back({std::to_string(one), true, 2});
  Table table(columns);
  for (size_t i = 0; i < comparison.rows.size();) {
    const std::string& name = comparison.rows[i].name;
    std::vector<nlohmann::json> row = {name};
    row.resize(1 + costs.size());
    for (; i < comparison.rows.size() && comparison.rows[i].name == name; ++i) {
      const auto place = costs.find(cost_of(comparison.rows[i], unit));
      if (place == costs.end()) continue;
      row[1 + static_cast<size_t>(std::distance(costs.begin(), place))] = cell(comparison.rows[i]);
    }
    table.add_row(row);
  }
  return table;
}

Table figures_by_guidance(const Comparison& comparison) {
  std::vector<Table::Column> columns = {{"solver"}, {"NFE", true}};
  for (const auto& bin : comparison.guidance_bins) {
    columns.push_back({fmt::format("{:g} to {:g}", bin.from, bin.to), true, 2});
  }
  Table table(columns);
  for (const auto& row : comparison.rows) {
    std::vector<nlohmann::json> cells = {row.name, row.nfe};
    for (const double psnr : row.psnr_by_guidance) cells.push_back(decibel_cell(row, psnr));
    table.add_row(cells);
  }
  return table;
}

Table all_figures(const Comparison& comparison, const std::string& title, bool for_people) {
  std::vector<Table::Column> columns = {{"solver"},
                                        {"nfe", true},
                                        {"psnr_db", true, 2},
                                        {"psnr_error_db", true, 2},
                                        {"latent_psnr_db", true, 2},
                                        {"snr_db", true, 2},
                                        {"mse_p05", true},
                                        {"mse_median", true},
                                        {"mse_p95", true},
                                        {"ms_per_sample", true, 3},
                                        {"model_calls", true},
                                        {"fd_ref", true},
                                        {"fd_real", true},
                                        {"agreement", true, 3}};
  const auto of_sounds = sound_figures(comparison);
  for (const auto& one : of_sounds) columns.push_back({one.column, true, 2});
  if (!for_people) add_program_columns(comparison, columns);
  Table table(columns);
  const auto add = [&](const ComparisonRow& row) {
    auto cells = figure_cells(row, for_people);
    for (const auto& one : of_sounds) cells.push_back(number_or_null(row.*one.figure));
    if (!for_people) {
      add_program_cells(comparison, row, cells);
      cells.push_back(title);
    }
    table.add_row(cells);
  };
  for (const auto& row : comparison.rows) add(row);
  if (comparison.reference_frechet_to_real || comparison.reference_agreement ||
      comparison.reference_joint_flux) {
    add(reference_row(comparison));
  }
  return table;
}

}  // namespace bespoke
