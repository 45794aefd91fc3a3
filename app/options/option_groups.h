#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace bespoke {

// A heading of a command's help, and the options below it, in this order of headings.
struct OptionGroup {
  std::string heading;
  std::vector<std::string> options;
};

// Those named that a command does not have are left out; what is named nowhere stays under the
// usual heading.
void group_options(CLI::App& command, const std::vector<OptionGroup>& groups);

// How a model is run, for every command that runs one.
const OptionGroup& running_group();

}  // namespace bespoke
