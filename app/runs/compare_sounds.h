#pragma once

#include <filesystem>

#include "bespoke/jobs/compare_job.h"

namespace bespoke {

// The samples that a comparison kept as WAVs in a folder, 1-reference.wav, 1-euler-8.wav and so on,
// from the same noise by their number; where gaps were filled also the recordings.
void write_compared_sounds(const ModelComparison& compared, const std::filesystem::path& folder);

}  // namespace bespoke
