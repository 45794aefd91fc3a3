#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace bespoke::detail {

// LibTorch 2's wheels export the std::filesystem of another compiler, in which everything that
// walks or makes folders crashes. Paths are safe; folders are made and walked by functions below.

// Whether there is such a file, and it is not a folder.
bool is_file(const std::filesystem::path& path);

// Reads the whole file; throws a bad-input error that says why it cannot be read. Devices and
// pipes, which may have no end, are none.
std::string read_file(const std::filesystem::path& path);

// The same for a file that people write or read, which has at most 64 MiB.
std::string read_text_file(const std::filesystem::path& path);

// Reads the numbers of a text file: JSON, or numbers with blanks or commas between them.
std::vector<double> read_numbers(const std::filesystem::path& path);

// Writes the whole file or nothing: to a temporary beside it, of a name that nobody can guess, then
// renamed over it. A reader, a crash or a kill sees the old content or the new, never a part; what
// a killed writer left is removed by the next that writes into the folder. A file that is replaced
// keeps its mode. A link stays and what it points to is written. Devices and pipes are written
// through; a signal ends the waiting for the reader of a pipe.
void write_file_atomically(const std::filesystem::path& path, const std::string& content);

// Removes what writers that were killed left in the folder.
void remove_abandoned(const std::filesystem::path& folder);

// Makes the folder and those above it that are missing.
void make_folders(const std::filesystem::path& path);

// The files in the folder and those below it, as paths from it, in no particular order. What is
// hidden (".name") is left out; links are followed, but not into a folder they lie in.
std::vector<std::string> list_files(const std::filesystem::path& folder);

}  // namespace bespoke::detail
