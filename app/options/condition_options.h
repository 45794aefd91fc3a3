#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace bespoke {

// --cond with this text of help, and --prompt TEXT and --prompts FILE, which are --cond prompt=TEXT
// and prompt=@FILE of a model that is told what to draw in words.
void add_condition_options(CLI::App& command, std::vector<std::string>& conditions,
                           const std::string& help);

}  // namespace bespoke
