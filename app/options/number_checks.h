#pragma once

#include <CLI/CLI.hpp>

namespace bespoke {

// For CLI::Option::check: a number above 0.
CLI::Validator positive_number();

// Refuses, for all options of all commands, numbers that CLI11 would take for others: whole ones
// beyond 64 bits, which it clamps, and any that are not finite.
void check_numbers(CLI::App& app);

}  // namespace bespoke
