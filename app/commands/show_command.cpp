#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "bespoke/base/table.h"
#include "bespoke/solver/solver_drawing.h"
#include "bespoke/solver/solver_file.h"
#include "commands/plain_commands.h"
#include "options/format_options.h"

namespace bespoke {

namespace {

// Where it came from, a line for each thing known.
std::string provenance_lines(const nlohmann::json& provenance) {
  std::string text;
  for (const auto& [key, value] : provenance.items()) {
    text += fmt::format("\n  {:<20} {}", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

std::string made_for(const SolverFile& file) {
  return fmt::format("for the {} field of a {} model, {}", file.field.schedule->name(),
                     to_string(file.field.prediction), to_string(file.field.guidance));
}

// What a solver with built-in guidance does more; empty for others.
std::string own_guidance(const NsSolver& solver) {
  if (!solver.guides_itself()) return "";
  return fmt::format(
      "\nbuilt-in guidance: {} network calls per sample, unconditional ones at steps {}",
      solver.shape().calls(), fmt::join(solver.guided, ", "));
}

std::string summary(const SolverFile& file, const NsSolver& solver) {
  return fmt::format("{}: {} NFE, {} free parameters, starts from {:.6g} times the noise\n{}{}{}",
                     file.name, solver.nfe(), solver.parameter_count(), solver.start_scale,
                     made_for(file), own_guidance(solver),
                     provenance_lines(to_json(file.provenance_of(solver.nfe()))));
}

// Step i: x_{i+1} = a x_0 + sum_j b_j u_j + sum_j c_j d_j, evaluated at t_i.
void show_one(const SolverFile& file, int nfe, TableFormat format) {
  const NsSolver& solver = file.at(nfe);
  constexpr int kDecimals = 5;
  std::vector<Table::Column> columns = {
      {"step", true}, {"t", true, kDecimals}, {"next t", true, kDecimals}, {"a", true, kDecimals}};
  for (int j = 0; j < solver.nfe(); ++j) {
    columns.push_back({fmt::format("b{}", j), true, kDecimals});
  }
  for (const int j : solver.guided) columns.push_back({fmt::format("c{}", j), true, kDecimals});
  Table table(columns);
  for (size_t i = 0; i < solver.a.size(); ++i) {
    std::vector<nlohmann::json> row = {i, solver.times[i], solver.times[i + 1], solver.a[i]};
    const auto add = [&](const std::vector<double>& values, size_t cells) {
      for (size_t j = 0; j < cells; ++j) {
        row.push_back(j < values.size() ? nlohmann::json(values[j]) : nlohmann::json(""));
      }
    };
    add(solver.b[i], solver.a.size());
    if (solver.guides_itself()) add(solver.c[i], solver.guided.size());
    table.add_row(row);
  }
  fmt::print("{}", table.render(format, summary(file, solver)));
  if (format != TableFormat::table) return;
  fmt::print("\nevaluations at\n{}\nsize of b, darker is larger, '-' is negative\n{}",
             draw_times(solver), draw_coefficients(solver));
}

// A row for each solver, with what its distillation left where there was one.
void show_all(const SolverFile& file, TableFormat format) {
  constexpr int kDecimals = 5;
  Table table({{"NFE", true},
               {"parameters", true},
               {"start scale", true, kDecimals},
               {"first t", true, kDecimals},
               {"last t", true, kDecimals},
               {"start"},
               {"best dB", true, 2},
               {"forwards", true}});
  for (const auto& filed : file.solvers) {
    const NsSolver& solver = filed.solver;
    const Provenance provenance = file.provenance_of(solver.nfe());
    const auto known = [](const auto& value) { return value ? nlohmann::json(*value) : nullptr; };
    table.add_row({solver.nfe(), solver.parameter_count(), solver.start_scale, solver.times.front(),
                   solver.times[solver.a.size() - 1], provenance.start,
                   known(provenance.validation_psnr),
                   known(provenance.forwards ? provenance.forwards : provenance.calls)});
  }
  const std::string title = fmt::format("{}: {} solvers\n{}{}", file.name, file.solvers.size(),
                                        made_for(file), provenance_lines(file.provenance));
  fmt::print("{}", table.render(format, title));
  if (format != TableFormat::table) return;
  fmt::print("\nevaluations at\n");
  for (const auto& filed : file.solvers) {
    fmt::print("{:>3} {}", filed.solver.nfe(), draw_times(filed.solver));
  }
}

struct ShowCommandOptions {
  std::string path, format = "table";
  int nfe = 0;
};

void run_show(const ShowCommandOptions& options) {
  const SolverFile file = read_solver_file(options.path);
  const TableFormat format = parse_table_format(options.format);
  if (options.nfe == 0 && file.solvers.size() > 1) return show_all(file, format);
  show_one(file, options.nfe, format);
}

}  // namespace

void add_show_command(CLI::App& app) {
  auto options = std::make_shared<ShowCommandOptions>();
  auto* command = app.add_subcommand(
      "show",
      "Show a solver file: its solvers, what they are for, where they came from.\n\n"
      "Examples:\n  bespoke show my.solver.json\n"
      "  bespoke show my.solver.json --nfe 6           the times and coefficients of one\n"
      "  bespoke show my.solver.json --format csv");
  command->add_option("FILE", options->path, "a .solver.json")->required();
  command->add_option("--nfe", options->nfe,
                      "show the solver of so many evaluations; default all, or the only one");
  add_format_option(*command, options->format);
  command->callback([options] { run_show(*options); });
}

}  // namespace bespoke
