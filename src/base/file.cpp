#include "bespoke/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "bespoke/base/error.h"

namespace bespoke::detail {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

std::string read_file(const fs::path& path) {
  if (fs::is_directory(path)) throw bad_input("'{}' is a folder, not a file", path.string());
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw bad_input("cannot read '{}': {}; check the path", path.string(), std::strerror(errno));
  }
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
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
  // Without this a power cut after the rename could leave an empty file under the final name.
  if (::fsync(descriptor) != 0) throw cannot_write(path);
}

static constexpr char kUnfinished[] = ".part";

void write_file_atomically(const fs::path& path, const std::string& content) {
  const fs::path temporary = path.string() + fmt::format(".{}{}", ::getpid(), kUnfinished);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (descriptor < 0) throw cannot_write(path);
  try {
    write_all(descriptor, content, path);
  } catch (...) {
    ::close(descriptor);
    ::unlink(temporary.c_str());
    throw;
  }
  ::close(descriptor);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = cannot_write(path);
    ::unlink(temporary.c_str());
    throw error;
  }
}

// Whether `name` is that of a temporary of the file: "FILE.<digits>.part".
static bool is_unfinished(const std::string& name, const std::string& file) {
  const std::string ending = kUnfinished;
  const size_t begin = file.size() + 1;
  if (name.rfind(file + ".", 0) != 0 || name.size() <= begin + ending.size()) return false;
  const size_t end = name.find_first_not_of("0123456789", begin);
  return end != begin && end != std::string::npos && name.substr(end) == ending;
}

void remove_unfinished(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  DIR* listing = ::opendir(folder.c_str());
  if (listing == nullptr) return;  // no folder, nothing in it
  while (const dirent* entry = ::readdir(listing)) {
    if (is_unfinished(entry->d_name, path.filename().string())) {
      ::unlink((folder / entry->d_name).c_str());
    }
  }
  ::closedir(listing);
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

}  // namespace bespoke::detail
