#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "program/program.h"

namespace bespoke {

// The commands that need no LibTorch: an executable that has them need not be linked with it. What
// two of them leave to it, torchscript_bytes and read_checkpoint_tables, the executable brings.
std::map<std::string, AddCommand> plain_commands();

void add_solvers_command(CLI::App& app);
void add_solver_command(CLI::App& app);
void add_show_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_import_command(CLI::App& app);

}  // namespace bespoke
