#pragma once

#include <filesystem>

#include "sample_source.h"

namespace bespoke {

// A .safetensors file such as write_dataset writes, checked.
SampleSource open_dataset_file(const std::filesystem::path& path);

}  // namespace bespoke
