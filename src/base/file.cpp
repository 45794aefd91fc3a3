#include "bespoke/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/text.h"
#include "temporary_file.h"

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

namespace {

// Closed when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

// For what comes when others please: a signal ends the waiting, and people are told what is waited
// for.
class Patience {
 public:
  explicit Patience(std::string message) : message_(std::move(message)) {}

  void wait() {
    throw_if_interrupted();
    constexpr int kOften = 20, kToldAfter = 50;  // a second
    if (++waits_ == kToldAfter) say("bespoke: {}", message_);
    std::this_thread::sleep_for(std::chrono::milliseconds(kOften));
  }

 private:
  std::string message_;
  int waits_ = 0;
};

}  // namespace

static void write_all(int descriptor, const std::string& content, const fs::path& path) {
  Patience patience(fmt::format("waiting for the reader of '{}'", path.string()));
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t written = ::write(descriptor, content.data() + done, content.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      patience.wait();
    } else if (errno != EINTR) {
      throw cannot_write(path);
    }
  }
}

// Opened and written without blocking: a blocked call would go on after a signal.
static void write_through(const fs::path& path, bool is_pipe, const std::string& content) {
  constexpr int kFlags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Patience patience(fmt::format("waiting for a reader of the pipe '{}'", path.string()));
  int number = ::open(path.c_str(), kFlags);
  for (; number < 0 && errno == ENXIO && is_pipe; number = ::open(path.c_str(), kFlags)) {
    patience.wait();
  }
  const Descriptor device(number);
  if (device.number() < 0) throw cannot_write(path);
  write_all(device.number(), content, path);
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
  struct stat status;
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    throw Error(
        ErrorKind::failed,
        fmt::format("cannot write '{}': it is a folder; choose another name", path.string()));
  }
  if (exists && !S_ISREG(status.st_mode)) {
    return write_through(path, S_ISFIFO(status.st_mode), content);
  }
  TemporaryFile file(follow_links(path));
  write_all(file.descriptor(), content, path);
  // Without this a power cut after the rename could leave an empty file under the final name.
  if (::fsync(file.descriptor()) != 0 || !file.take_its_name()) throw cannot_write(path);
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
