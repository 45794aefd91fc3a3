#include <fmt/format.h>

#include <memory>

#include "bespoke/report/table.h"
#include "bespoke/solver/catalogue.h"
#include "commands.h"
#include "format_option.h"

namespace bespoke {

static void run_solvers(TableFormat format) {
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

void add_solvers_command(CLI::App& app) {
  auto format = std::make_shared<std::string>("table");
  auto* command = app.add_subcommand(
      "solvers",
      "List every solver by name: family, order, evaluations per step, place in the taxonomy.\n\n"
      "Examples:\n  bespoke solvers\n  bespoke solvers --format json");
  add_format_option(*command, *format);
  command->callback([format] { run_solvers(parse_table_format(*format)); });
}

}  // namespace bespoke
