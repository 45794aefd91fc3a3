#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "bespoke/jobs/feature_choice.h"

namespace bespoke {

// --features, --features-range and --features-size, with these words of help on what features are
// for.
void add_feature_options(CLI::App& command, FeatureChoice& choice, const std::string& purpose);

}  // namespace bespoke
