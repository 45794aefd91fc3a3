#include <fmt/format.h>

#include <memory>

#include "bespoke/report/solver_drawing.h"
#include "bespoke/report/table.h"
#include "bespoke/solver/solver_file.h"
#include "commands/commands.h"
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

std::string summary(const SolverFile& file) {
  return fmt::format(
      "{}: {} NFE, {} free parameters, starts from {:.6g} times the noise\n"
      "for the {} field of a {} model, {}{}",
      file.name, file.solver.nfe(), file.solver.parameter_count(), file.solver.start_scale,
      file.field.schedule->name(), to_string(file.field.prediction), to_string(file.field.guidance),
      provenance_lines(file.provenance));
}

// Step i: x_{i+1} = a x_0 + sum_j b_j u_j, evaluated at t_i.
void run_show(const std::string& path, TableFormat format) {
  const SolverFile file = read_solver_file(path);
  const NsSolver& solver = file.solver;
  constexpr int kDecimals = 5;
  std::vector<Table::Column> columns = {
      {"step", true}, {"t", true, kDecimals}, {"next t", true, kDecimals}, {"a", true, kDecimals}};
  for (int j = 0; j < solver.nfe(); ++j) {
    columns.push_back({fmt::format("b{}", j), true, kDecimals});
  }
  Table table(columns);
  for (size_t i = 0; i < solver.a.size(); ++i) {
    std::vector<nlohmann::json> row = {i, solver.times[i], solver.times[i + 1], solver.a[i]};
    for (size_t j = 0; j < solver.a.size(); ++j) {
      row.push_back(j <= i ? nlohmann::json(solver.b[i][j]) : nlohmann::json(""));
    }
    table.add_row(row);
  }
  fmt::print("{}", table.render(format, summary(file)));
  if (format != TableFormat::table) return;
  fmt::print("\nevaluations at\n{}\nsize of b, darker is larger, '-' is negative\n{}",
             draw_times(solver), draw_coefficients(solver));
}

}  // namespace

void add_show_command(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  auto format = std::make_shared<std::string>("table");
  auto* command = app.add_subcommand(
      "show",
      "Show a solver file: its times and coefficients, what it is for, where it came from.\n\n"
      "Examples:\n  bespoke show my.solver.json\n  bespoke show my.solver.json --format csv");
  command->add_option("FILE", *path, "a .solver.json")->required();
  add_format_option(*command, *format);
  command->callback([path, format] { run_show(*path, parse_table_format(*format)); });
}

}  // namespace bespoke
