#pragma once

#include <sys/types.h>

#include <filesystem>

namespace bespoke::detail {

// A file that is written before it gets its name: hidden in the folder of the target, under a name
// that cannot be guessed and was not there. It is locked for as long as it is written, so that what
// a killed writer left is told from what another is at; such leftovers are removed before the first
// temporary is made in a folder.
class TemporaryFile {
 public:
  // With the mode of the target where there is one. Throws a `failed` error that names the target.
  explicit TemporaryFile(const std::filesystem::path& target);
  // Removes it, unless it has got its name.
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int descriptor() const { return descriptor_; }

  // Replaces the target. False, with errno, where that fails.
  bool take_its_name();

 private:
  // False where another path may do.
  bool create(const std::filesystem::path& path, mode_t mode);

  std::filesystem::path target_, path_;
  int descriptor_ = -1;
};

}  // namespace bespoke::detail
