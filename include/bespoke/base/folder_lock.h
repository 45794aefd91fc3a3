#pragma once

#include <filesystem>

namespace bespoke::detail {

// One run at a time writes to a folder. The lock is on the folder itself, so that nothing is left
// of it, even by a run that is killed. A folder another run holds is bad input.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  int descriptor_;
};

}  // namespace bespoke::detail
