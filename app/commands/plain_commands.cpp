#include "commands/plain_commands.h"

namespace bespoke {

std::map<std::string, AddCommand> plain_commands() {
  return {{"solvers", add_solvers_command},
          {"solver", add_solver_command},
          {"show", add_show_command},
          {"export", add_export_command},
          {"import", add_import_command}};
}

}  // namespace bespoke
