#include "bespoke/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"

namespace bespoke::detail {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

static Error cannot_read(const fs::path& path) {
  return bad_input("cannot read '{}': {}; check the path", path.string(), std::strerror(errno));
}

static std::string read_at_most(const fs::path& path, uint64_t most) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) throw cannot_read(path);
  if (S_ISDIR(status.st_mode)) throw bad_input("'{}' is a folder, not a file", path.string());
  if (!S_ISREG(status.st_mode)) {
    throw bad_input("'{}' is a device or a pipe; give a file", path.string());
  }
  if (static_cast<uint64_t>(status.st_size) > most) {
    throw bad_input("'{}' has {} bytes, more than the {} that such a file may have", path.string(),
                    status.st_size, most);
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw cannot_read(path);
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
}

std::string read_file(const fs::path& path) {
  return read_at_most(path, std::numeric_limits<uint64_t>::max());
}

std::string read_text_file(const fs::path& path) {
  constexpr uint64_t kMost = uint64_t{1} << 26;
  return read_at_most(path, kMost);
}

static Error cannot_write(const fs::path& path) {
  return Error(ErrorKind::failed,
               fmt::format("cannot write '{}': {}", path.string(), std::strerror(errno)));
}

static void write_all(int descriptor, const std::string& content, const fs::path& path) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t written = ::write(descriptor, content.data() + done, content.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw cannot_write(path);
    done += static_cast<size_t>(written);
  }
}

namespace {

// Closed when it goes out of scope.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : number_(::open(path.c_str(), flags, 0644)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

static bool is_same_file(int descriptor, const fs::path& path) {
  struct stat open, named;
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

// The temporary, empty and this writer's alone. Another writer of the same file is waited for; by
// then it has renamed what was opened here, so it is opened again. File systems without locks are
// written to without one.
static Descriptor open_temporary(const fs::path& temporary, const fs::path& path) {
  while (true) {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_CLOEXEC);
    if (file.number() < 0) throw cannot_write(path);
    while (::flock(file.number(), LOCK_EX) != 0 && errno == EINTR) {
    }
    if (!is_same_file(file.number(), temporary)) continue;
    if (::ftruncate(file.number(), 0) != 0) throw cannot_write(path);
    return file;
  }
}

// Where a path leads, link by link, whether or not there is something.
static fs::path follow_links(const fs::path& path) {
  constexpr int kMostLinks = 40;
  fs::path target = path;
  for (int i = 0; i < kMostLinks; ++i) {
    char buffer[PATH_MAX];
    const ssize_t length = ::readlink(target.c_str(), buffer, sizeof(buffer));
    if (length < 0) return target;
    const fs::path next(std::string(buffer, static_cast<size_t>(length)));
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  errno = ELOOP;
  throw cannot_write(path);
}

void write_file_atomically(const fs::path& path, const std::string& content) {
  const fs::path target = follow_links(path);
  struct stat status;
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    throw Error(
        ErrorKind::failed,
        fmt::format("cannot write '{}': it is a folder; choose another name", path.string()));
  }
  if (exists && !S_ISREG(status.st_mode)) {
    const Descriptor device(target, O_WRONLY | O_CLOEXEC);
    if (device.number() < 0) throw cannot_write(path);
    return write_all(device.number(), content, path);
  }
  const fs::path temporary = target.string() + ".part";
  const Descriptor file = open_temporary(temporary, path);
  try {
    write_all(file.number(), content, path);
    // Without this a power cut after the rename could leave an empty file under the final name.
    if (::fsync(file.number()) != 0) throw cannot_write(path);
    if (::rename(temporary.c_str(), target.c_str()) != 0) throw cannot_write(path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void make_folders(const fs::path& path) {
  const std::string text = path.string();
  for (size_t end = 0; end != std::string::npos;) {
    end = text.find('/', end + 1);
    const std::string part = text.substr(0, end);
    if (::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) {
      throw Error(ErrorKind::failed, fmt::format("cannot make the folder '{}': {}; choose another",
                                                 text, std::strerror(errno)));
    }
  }
  struct stat status;
  if (::stat(text.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::failed, fmt::format("'{}' is a file, a folder is needed", text));
  }
}

static std::vector<std::string> names_in(const fs::path& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  if (!listing) {
    throw bad_input("cannot list the folder '{}': {}; check the path", folder.string(),
                    std::strerror(errno));
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

// Folders on the way down, by what identifies one whatever the path that led to it.
using Ancestors = std::vector<std::pair<dev_t, ino_t>>;

static void list_below(const fs::path& folder, const std::string& prefix, Ancestors& ancestors,
                       std::vector<std::string>& files) {
  for (const std::string& name : names_in(folder)) {
    struct stat status;
    // A link to nothing is listed as well, so that whoever reads it says so.
    if (::stat((folder / name).c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
      files.push_back(prefix + name);
      continue;
    }
    const std::pair<dev_t, ino_t> identity(status.st_dev, status.st_ino);
    if (std::find(ancestors.begin(), ancestors.end(), identity) != ancestors.end()) continue;
    ancestors.push_back(identity);
    list_below(folder / name, prefix + name + "/", ancestors, files);
    ancestors.pop_back();
  }
}

std::vector<std::string> list_files(const fs::path& folder) {
  std::vector<std::string> files;
  Ancestors ancestors;
  struct stat status;
  if (::stat(folder.c_str(), &status) == 0) ancestors.emplace_back(status.st_dev, status.st_ino);
  list_below(folder, "", ancestors, files);
  return files;
}

std::vector<double> read_numbers(const std::filesystem::path& path) {
  std::string text = read_text_file(path);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '[' || c == ']' || c == ','; }, ' ');
  std::istringstream stream(text);
  std::vector<double> numbers;
  for (std::string word; stream >> word;) {
    try {
      numbers.push_back(
          parse_number(word, fmt::format("{}: entry {}", path.string(), numbers.size())));
    } catch (const Error& error) {
      throw Error(ErrorKind::bad_input, error.what());  // the file is wrong, not the command
    }
  }
  return numbers;
}

}  // namespace bespoke::detail
