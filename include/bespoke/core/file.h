#pragma once

#include <filesystem>
#include <string>

namespace bespoke {

// LibTorch 2's wheels export the std::filesystem of another compiler, in which everything that
// walks or makes folders crashes. Paths are safe; folders are made by the function below.

// The whole file; throws a bad-input error that says why it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Writes the whole file or nothing: to a temporary beside it, then renamed over it. A reader, a
// crash or a kill sees the old content or the new, never a part.
void write_file_atomically(const std::filesystem::path& path, const std::string& content);

// Makes the folder and those above it that are missing.
void make_folders(const std::filesystem::path& path);

}  // namespace bespoke
