#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace bespoke {

// --schedule and --prediction, for commands that build solvers without a model.
void add_path_options(CLI::App& command, std::string& schedule, std::string& prediction);

}  // namespace bespoke
