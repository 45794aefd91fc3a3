#include "temporary_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"

namespace bespoke::detail {

namespace fs = std::filesystem;

namespace {

constexpr char kBeginning[] = ".bespoke-";
constexpr char kEnding[] = ".part";
constexpr size_t kDigits = 32;

// random_device asks the system each time; 128 bits are met neither by chance nor by trying.
std::string unguessable_name() {
  std::random_device random;
  std::string name = kBeginning;
  for (size_t i = 0; i < kDigits; i += 8) name += fmt::format("{:08x}", random());
  return name + kEnding;
}

bool is_temporary_name(const std::string& name) {
  const std::string beginning = kBeginning, ending = kEnding;
  return name.size() == beginning.size() + kDigits + ending.size() &&
         name.compare(0, beginning.size(), beginning) == 0 &&
         name.compare(name.size() - ending.size(), ending.size(), ending) == 0 &&
         name.find_first_not_of("0123456789abcdef", beginning.size()) == beginning.size() + kDigits;
}

bool is_named(int descriptor, const fs::path& path) {
  struct stat open, named;
  return ::fstat(descriptor, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

// Whether nobody else holds it, so that it is held now; where a file system has no locks, `unsure`.
bool lock_at_once(int descriptor, bool unsure) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  return errno != EWOULDBLOCK && unsure;
}

// O_NONBLOCK: a pipe that somebody put there is not waited for.
void remove_if_abandoned(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status;
  const bool is_mine =
      ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
  if (is_mine && lock_at_once(descriptor, false) && is_named(descriptor, path)) {
    ::unlink(path.c_str());
  }
  ::close(descriptor);
}

// Whether this is the first call for the folder in this process. A folder that is gone may leave
// its number to another one, so its path counts too.
bool is_first_visit(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<std::tuple<std::string, dev_t, ino_t>> visited;
  struct stat status;
  if (::stat(folder.c_str(), &status) != 0) return false;
  const std::lock_guard<std::mutex> guard(mutex);
  return visited.emplace(folder.string(), status.st_dev, status.st_ino).second;
}

Error cannot_begin(const fs::path& target) {
  return Error(ErrorKind::failed,
               fmt::format("cannot write '{}': {}", target.string(), std::strerror(errno)));
}

}  // namespace

// What is being written, what belongs to another user and all that cannot be looked at stays.
void remove_abandoned(const fs::path& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    if (is_temporary_name(entry->d_name)) remove_if_abandoned(folder / entry->d_name);
  }
}

TemporaryFile::TemporaryFile(const fs::path& target) : target_(target) {
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (is_first_visit(folder)) remove_abandoned(folder);
  struct stat status;
  const bool replaces = ::stat(target.c_str(), &status) == 0;
  constexpr mode_t kNew = 0644, kAll = 0777;
  const mode_t mode = replaces ? status.st_mode & kAll : kNew;
  // Who cleans up may lock it before it is locked here; then there is another name.
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts && !create(folder / unguessable_name(), mode & kNew); ++i) {
  }
  if (descriptor_ < 0) throw cannot_begin(target);
  // Creating it took bits off its mode. On file systems without modes this fails and nothing is
  // lost.
  if (replaces && ::fchmod(descriptor_, mode) != 0) return;
}

bool TemporaryFile::create(const fs::path& path, mode_t mode) {
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (descriptor < 0 && errno == EEXIST) return false;
  if (descriptor < 0) throw cannot_begin(target_);
  if (lock_at_once(descriptor, true) && is_named(descriptor, path)) {
    path_ = path;
    descriptor_ = descriptor;
    return true;
  }
  ::unlink(path.c_str());
  ::close(descriptor);
  errno = EBUSY;
  return false;
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
  ::close(descriptor_);
}

bool TemporaryFile::take_its_name() {
  if (::rename(path_.c_str(), target_.c_str()) != 0) return false;
  path_.clear();
  return true;
}

}  // namespace bespoke::detail
