#pragma once

#include <CLI/CLI.hpp>

#include "bespoke/jobs/sample_choice.h"

namespace bespoke {

// The options that say which samples: --cond, --prompt, --prompts, --count, --seed, --seeds,
// --noise.
void add_sample_options(CLI::App& command, SampleChoice& choice);

}  // namespace bespoke
