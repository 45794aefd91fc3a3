#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace bespoke {

// Each adds one subcommand with its options; its callback does the work. One file per command.
// Those that need no LibTorch are in plain_commands.h.
void add_sample_command(CLI::App& app);
void add_infill_command(CLI::App& app);
void add_pairs_command(CLI::App& app);
void add_distill_command(CLI::App& app);
void add_check_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_demo_command(CLI::App& app);

// Runs one command line, given without the program's name, from within another.
void run_command(const std::vector<std::string>& arguments);

}  // namespace bespoke
