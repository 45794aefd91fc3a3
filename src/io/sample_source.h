#pragma once

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace bespoke {

enum class Medium { image, sound };

struct SampleValues {
  torch::Tensor values;  // uint8 [1 or 3, height, width] or float32 [channels, length]
  int sample_rate = 0;   // 0 for images
};

// One sample of a dataset, found but not read yet.
struct SampleEntry {
  std::string name;  // for messages
  std::string class_name;
  Medium medium = Medium::image;
  std::function<SampleValues()> load;  // threads may call those of several entries at once
};

struct SampleSource {
  std::vector<SampleEntry> entries;
  std::vector<std::string> classes;  // declared, whether or not a sample has them
  std::vector<std::string> skipped;  // files that are neither images nor sounds
};

constexpr char kNoClass[] = "all";

// A folder, a .zip or a .safetensors.
SampleSource open_sample_source(const std::filesystem::path& path);

}  // namespace bespoke
