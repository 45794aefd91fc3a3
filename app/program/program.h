#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program/command_table.h"

namespace bespoke {

// Adds one subcommand with its options to a program; its callback does the work.
using AddCommand = void (*)(CLI::App& app);

// `bespoke` or `bespoke-train`, as an executable that contains some of its commands or all.
struct Program {
  std::string name, introduction, version;
  const std::vector<CommandRow>& commands;
  std::map<std::string, AddCommand> contained;
  // Commands of earlier versions, and what to write instead of each.
  std::map<std::string, std::string> moved = {};
};

// Runs a command line, given without the program's name. Throws an error for what goes wrong.
void run_command_line(const Program& program, const std::vector<std::string>& arguments);

// Does the work and returns its exit code. Errors become the last words of the program, one
// sentence, which `say` is given.
int run_reporting_errors(const std::string& program, const std::function<void()>& work,
                         const std::function<void(const std::string&)>& say);

}  // namespace bespoke
