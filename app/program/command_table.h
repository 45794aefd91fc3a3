#pragma once

#include <string>
#include <vector>

namespace bespoke {

// What is known of a command without its code: what the help says of it in a line, and who runs it.
struct CommandRow {
  std::string name, summary;
  bool needs_libtorch;  // if not, the launcher runs it itself, and LibTorch is not loaded
  bool shares_work;     // among the processes that mpirun started
};

// All commands of `bespoke` and of `bespoke-train`, in the order of their help.
const std::vector<CommandRow>& solver_commands();
const std::vector<CommandRow>& training_commands();

// Null where there is no command of this name.
const CommandRow* find_command(const std::vector<CommandRow>& commands, const std::string& name);

// The arguments up to the command's name are the program's own; the command's place among them,
// or their number where they name none.
size_t place_of_command(const std::vector<std::string>& arguments);

}  // namespace bespoke
