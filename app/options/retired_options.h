#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace bespoke {

// A flag of an earlier version: not in the help, and refused with what to write instead, which
// completes "--name is gone; ".
void add_retired_option(CLI::App& command, const std::string& name, const std::string& instead);

// Those that said of a solver what its name says.
void add_retired_solver_options(CLI::App& command, const std::string& example = "dpm++2m");

}  // namespace bespoke
