#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace bespoke {

// Images or sounds with their classes, in memory.
struct Dataset {
  torch::Tensor samples;             // images: uint8 [count, 1 or 3, height, width];
                                     // sounds: float32 [count, channels, length] in [-1, 1]
  torch::Tensor labels;              // int64 [count], places in `classes`
  std::vector<std::string> classes;  // by name, digits by their value: "2" before "10"
  int sample_rate = 0;               // in Hz; 0 for images
  std::vector<std::string> notes;    // sentences for the user: what was resized, cut, skipped
};

// What samples are brought to.
struct DatasetOptions {
  // Images: height and width; 0: the size most of them have, which need not be square. Sounds: the
  // length in samples; 0: the median.
  int64_t size = 0;
  // How many channels; 0: the most any file has, so grey images stay grey if all are, and are RGB
  // otherwise.
  int64_t channels = 0;
  // Told how much is done, from 0 to 1, on the calling thread; what it throws ends the reading.
  std::function<void(double)> on_progress;
};

// Reads and joins sources, in their order: folders and .zip archives of JPEG and PNG or of WAV
// files, and .safetensors files such as write_dataset writes. Docs: docs/guide/datasets.md.
//
// A file's class is the folder it lies in, the innermost one, or "all" if it lies in none; classes
// of one name are one class. Within a source, samples are in the order of their paths. Images of
// another size are cut in the middle to the wanted shape and resized; sounds are cut at the end or
// padded with silence.
//
// Bad input: a source that is not there, nothing usable in any, images beside sounds, sounds of
// different rates, a broken file. Files of other kinds are skipped and counted in the notes.
Dataset read_dataset(const std::vector<std::filesystem::path>& sources,
                     const DatasetOptions& options = {});

// Writes everything but the notes as .safetensors: tensors `samples` and `labels`, metadata
// `classes` (a JSON list) and, for sounds, `sample_rate`.
void write_dataset(const std::filesystem::path& path, const Dataset& dataset);

}  // namespace bespoke
