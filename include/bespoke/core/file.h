#pragma once

#include <filesystem>
#include <string>

namespace bespoke {

// The whole file; throws a bad-input error that says why it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Writes the whole file or nothing: to a temporary beside it, then renamed over it. A reader, a
// crash or a kill sees the old content or the new, never a part.
void write_file_atomically(const std::filesystem::path& path, const std::string& content);

}  // namespace bespoke
