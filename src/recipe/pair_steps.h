#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bespoke/io/safetensors.h"
#include "bespoke/recipe/pair_manifest.h"
#include "bespoke/sample/dense_trajectories.h"

namespace bespoke::detail {

// The recorded steps of some samples, which differ in their number, as tensors of one file: those
// of all samples one after the other, and how many each has.
TensorFile joined_steps(const std::vector<RecordedSteps>& samples);

// Back again, with everything checked but whose they are.
std::vector<RecordedSteps> separate_steps(const TensorFile& file, int64_t samples,
                                          const PairManifest& manifest, const std::string& source);

}  // namespace bespoke::detail
