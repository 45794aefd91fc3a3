#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <string>

#include "bespoke/base/table.h"

namespace bespoke {

inline void add_format_option(CLI::App& command, std::string& format) {
  command
      .add_option("--format", format,
                  fmt::format("how to print: {}", fmt::join(table_format_names(), ", ")))
      ->capture_default_str();
}

}  // namespace bespoke
