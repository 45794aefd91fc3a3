#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bespoke/core/error.h"
#include "bespoke/core/progress.h"
#include "bespoke/core/text.h"
#include "bespoke/measure/compare.h"
#include "bespoke/report/table.h"
#include "commands.h"
#include "format_option.h"
#include "model_options.h"
#include "solver_options.h"
#include "space_option.h"
#include "start_options.h"

namespace bespoke {

namespace {

struct CompareCommandOptions {
  ModelOptions model;
  StartOptions start;
  SolverOptions solver;
  std::string solvers = "euler,midpoint,heun,ab2,ddim,dpm++2m,unipc2-bh2,exp-ab2-noise,deis-t-ab2";
  std::string nfe = "4-16+4";
  std::string format = "table";
  double tolerance = 1e-6;
  std::string space = "sample";
  bool details = false;
};

// The options as they apply to one of several solvers: files are finished, and only some methods
// have an order to lower.
SolverOptions options_for(const std::string& name, const SolverOptions& options) {
  if (is_solver_file(name)) return {};
  SolverOptions own = options;
  own.lower_order_final = own.lower_order_final && can_lower_order(name);
  return own;
}

// Every solver at every NFE it can spend; a file at its own, which joins the list.
std::vector<Contender> contenders(const CompareCommandOptions& options,
                                  const FieldDescription& field, std::vector<int64_t>& nfes) {
  std::vector<Contender> list;
  for (const auto& name : split(options.solvers, ',')) {
    const auto add = [&](int64_t nfe) {
      list.push_back({name, resolve_solver(name, static_cast<int>(nfe), field,
                                           options_for(name, options.solver))
                                .solver});
    };
    if (is_solver_file(name)) {
      add(0);
      nfes.push_back(list.back().solver.nfe());
      continue;
    }
    const size_t before = list.size();
    for (const int64_t nfe : parse_integer_list(options.nfe, "--nfe")) {
      if (can_spend(name, static_cast<int>(nfe))) add(nfe);
    }
    // None fits: building the first one says which would.
    if (list.size() == before) add(nfes.front());
  }
  std::sort(nfes.begin(), nfes.end());
  nfes.erase(std::unique(nfes.begin(), nfes.end()), nfes.end());
  return list;
}

nlohmann::json number_or_null(double psnr) {
  return std::isfinite(psnr) ? nlohmann::json(psnr) : nlohmann::json();
}

nlohmann::json number_or_diverged(double psnr) {
  return std::isfinite(psnr) ? nlohmann::json(psnr) : nlohmann::json("diverged");
}

// For people, a row per solver and a column per NFE; for programs, a row per figure.
Table wide_table(const Comparison& comparison, const std::vector<int64_t>& nfes) {
  std::vector<Table::Column> columns = {{"solver"}};
  for (const int64_t nfe : nfes) columns.push_back({std::to_string(nfe), true, 2});
  Table table(columns);
  for (size_t i = 0; i < comparison.rows.size();) {
    const std::string& name = comparison.rows[i].name;
    std::vector<nlohmann::json> row = {name};
    row.resize(1 + nfes.size());
    for (; i < comparison.rows.size() && comparison.rows[i].name == name; ++i) {
      for (size_t k = 0; k < nfes.size(); ++k) {
        if (nfes[k] == comparison.rows[i].nfe)
          row[1 + k] = number_or_diverged(comparison.rows[i].psnr);
      }
    }
    table.add_row(row);
  }
  return table;
}

// Every figure of every solver; for programs also what the figures are of.
Table long_table(const Comparison& comparison, const std::string& title, bool for_people) {
  std::vector<Table::Column> columns = {
      {"solver"},        {"nfe", true},        {"psnr_db", true, 2}, {"snr_db", true, 2},
      {"mse_p05", true}, {"mse_median", true}, {"mse_p95", true},    {"ms_per_sample", true, 3}};
  if (!for_people) columns.push_back({"of"});
  Table table(columns);
  const auto error = [&](double mse) {
    return for_people && std::isfinite(mse) ? nlohmann::json(fmt::format("{:.2e}", mse))
                                            : number_or_null(mse);
  };
  for (const auto& row : comparison.rows) {
    std::vector<nlohmann::json> cells = {row.name,
                                         row.nfe,
                                         number_or_null(row.psnr),
                                         number_or_null(row.snr),
                                         error(row.mse_low),
                                         error(row.mse_median),
                                         error(row.mse_high),
                                         number_or_null(1e3 * row.seconds)};
    if (!for_people) cells.push_back(title);
    table.add_row(cells);
  }
  return table;
}

void run_compare(const CompareCommandOptions& options) {
  const TableFormat format = parse_table_format(options.format);
  std::vector<int64_t> nfes = parse_integer_list(options.nfe, "--nfe");
  for (const int64_t nfe : nfes) check_nfe(nfe);
  const OpenModel open = open_model(options.model);
  const bool decoded = in_decoded_space(open, options.space);
  const Start start = make_start(open, options.start);
  const auto list = contenders(options, open.field(), nfes);
  Comparison result;
  {
    Progress progress("comparing");
    CompareOptions compare_options;
    compare_options.batch = options.model.batch;
    compare_options.tolerances = {options.tolerance, options.tolerance};
    compare_options.peak = value_peak(open, decoded);
    if (decoded) {
      compare_options.decode = [&](const torch::Tensor& x) { return open.decoder->decode(x); };
    }
    compare_options.on_progress = [&](double done) { progress.update(done); };
    result = compare(start.model, list, start.noise, start.conditions, compare_options);
  }
  if (format == TableFormat::csv || format == TableFormat::json) {
    fmt::print("{}", long_table(result, start.title, false).render(format));
    return;
  }
  const std::string title = fmt::format(
      "PSNR in dB (peak-to-peak {:g}, {} space) against the reference ({:.0f} evaluations a "
      "sample, tolerance {:g}){}\n{}",
      value_peak(open, decoded), decoded ? "decoded" : "sample", result.reference_evaluations,
      options.tolerance, options.details ? "" : ", by NFE", start.title);
  const Table table =
      options.details ? long_table(result, start.title, true) : wide_table(result, nfes);
  fmt::print("{}", table.render(format, title));
}

}  // namespace

void add_compare_command(CLI::App& app) {
  auto options = std::make_shared<CompareCommandOptions>();
  auto* command = app.add_subcommand(
      "compare",
      "Measure how near solvers come to the model's own samples, from the same noise.\n\n"
      "Examples:\n  bespoke compare --nfe 4-20+2\n"
      "  bespoke compare --solvers euler,midpoint,my.solver.json --nfe 8 --schedule vp\n"
      "  bespoke compare --nfe 8 --details\n"
      "  bespoke compare --format csv > figures.csv");
  command->add_option("--solvers", options->solvers, "names or .solver.json files, comma-separated")
      ->capture_default_str();
  command->add_option("--nfe", options->nfe, "evaluations, a list such as 4,8 or 4-20+2")
      ->capture_default_str();
  command->add_option("--tolerance", options->tolerance, "of the reference, relative and absolute")
      ->capture_default_str();
  options->model.add_to(*command);
  options->start.add_to(*command);
  add_space_option(*command, options->space);
  options->solver.add_to(*command);
  command->add_flag("--details", options->details,
                    "also SNR, quantiles of the squared error and time, a row for each");
  add_format_option(*command, options->format);
  command->callback([options] { run_compare(*options); });
}

}  // namespace bespoke
