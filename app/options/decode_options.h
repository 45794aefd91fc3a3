#pragma once

#include <CLI/CLI.hpp>

namespace bespoke {

// --decode-limit, for commands that read pictures, sounds and archives.
void add_decode_option(CLI::App& command);

}  // namespace bespoke
