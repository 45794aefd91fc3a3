#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "bespoke/base/table.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/grid.h"
#include "commands/plain_commands.h"
#include "options/format_options.h"

namespace bespoke {

namespace {

void list_grids(TableFormat format) {
  Table table({{"name"}, {"options"}, {"what it is"}});
  for (const auto& entry : grid_registry()) {
    table.add_row(
        {entry.name, fmt::format("{}", fmt::join(entry.options, ", ")), entry.description});
  }
  fmt::print("{}", table.render(format));
}

void list_solvers(TableFormat format) {
  Table table({{"name"},
               {"family"},
               {"order", true},
               {"NFE per step", true},
               {"taxonomy"},
               {"default grid"},
               {"what it is"}});
  for (const auto& entry : catalogue()) {
    table.add_row({entry.name, entry.family, entry.order, entry.evaluations_per_step,
                   entry.taxonomy(), entry.default_grid, entry.description});
  }
  fmt::print("{}", table.render(format));
}

}  // namespace

void add_solvers_command(CLI::App& app) {
  auto format = std::make_shared<std::string>("table");
  auto grids = std::make_shared<bool>(false);
  auto* command = app.add_subcommand(
      "solvers",
      "List every solver by name: family, order, evaluations per step, place in the taxonomy.\n\n"
      "Examples:\n  bespoke solvers\n  bespoke solvers --format json\n"
      "  bespoke solvers --grids                    the grids they run on");
  command->add_flag("--grids", *grids, "list the grids instead, GRID in NAME/GRID");
  add_format_option(*command, *format);
  command->callback([format, grids] {
    const TableFormat as = parse_table_format(*format);
    *grids ? list_grids(as) : list_solvers(as);
  });
}

}  // namespace bespoke
