#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace bespoke {

// A zip archive to read from, through libzip. Nothing is unpacked to the disk. In a build without
// libzip opening one throws an error that names the package to install.
class ZipArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& path);
  ~ZipArchive();

  // Paths inside the archive, in UTF-8 and the archive's order; folders are not among them.
  const std::vector<std::string>& names() const;

  // The file called names()[index], its checksum verified; a broken or encrypted one is bad input.
  // Threads may call this at once; they take turns.
  std::string read(size_t index) const;

  // Writes "ARCHIVE.zip:NAME", for messages.
  std::string describe(size_t index) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bespoke
