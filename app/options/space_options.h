#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "options/model_options.h"

namespace bespoke {

// --space: whether a latent model's samples are taken as they are or decoded.
void add_space_option(CLI::App& command, std::string& space);

// Whether it is "decoded"; refuses what is neither.
bool is_decoded_space(const std::string& space);

// Checked against the model: only one with a decoder has a decoded space.
bool in_decoded_space(const OpenModel& open, const std::string& space);

}  // namespace bespoke
