#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "options/model_options.h"
#include "options/samples_options.h"

namespace bespoke {

// What a run of `sample` leaves in its folder.
struct SampleOutput {
  torch::Tensor samples;                          // [count, ...]
  torch::Tensor decoded;                          // undefined unless there is a decoder in use
  std::map<std::string, std::string> parameters;  // how they were made, kept in every file
};

// Writes samples.safetensors (with the noise), and, where the samples are images, one PNG each and
// grid.png, where they are audio, one WAV each. Returns the names of what was written, for people.
std::vector<std::string> write_samples(const std::filesystem::path& folder, const OpenModel& open,
                                       const ChosenSamples& chosen, const SampleOutput& output);

}  // namespace bespoke
