#pragma once

#include <CLI/CLI.hpp>

namespace bespoke {

// Refuses, for all options of all commands, numbers that CLI11 would take for others: whole ones
// beyond 64 bits, which it clamps, and any that are not finite.
void check_numbers(CLI::App& app);

}  // namespace bespoke
