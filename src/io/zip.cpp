#include "bespoke/io/zip.h"

#include <zip.h>

#include <algorithm>
#include <mutex>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/io/decode_limit.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr size_t kBytesAtOnce = 1 << 20;

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using ArchiveHandle = std::unique_ptr<zip_t, Discard>;
using FileHandle = std::unique_ptr<zip_file_t, Discard>;

ArchiveHandle open_archive(const std::string& path) {
  if (!is_file(path)) throw bad_input("cannot read '{}': no such file; check the path", path);
  int code = 0;
  ArchiveHandle archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string why = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw bad_input("{}: not a zip archive, or broken ({}); fetch or make the file again", path, why);
}

// Appends the whole file to `bytes`; returns what is wrong with it, or null.
const char* unpack(zip_file_t* file, zip_uint64_t size, std::string& bytes) {
  // Grown as it is read: the size the archive claims is not trusted with memory.
  while (bytes.size() < size) {
    const size_t begin = bytes.size();
    const size_t wanted = std::min<zip_uint64_t>(size - begin, kBytesAtOnce);
    bytes.resize(begin + wanted);
    const zip_int64_t read = zip_fread(file, bytes.data() + begin, wanted);
    if (read < 0) return zip_file_strerror(file);
    if (read == 0) return "it ends too early";
    bytes.resize(begin + static_cast<size_t>(read));
  }
  // The checksum is compared when the end is met.
  char beyond = 0;
  const zip_int64_t more = zip_fread(file, &beyond, 1);
  if (more < 0) return zip_file_strerror(file);
  return more == 0 ? nullptr : "it is longer than it says";
}

}  // namespace

struct ZipArchive::State {
  std::string path;
  ArchiveHandle archive;
  std::vector<std::string> names;
  std::vector<zip_uint64_t> places;  // of the names among the archive's entries
  std::mutex turn;                   // libzip's archives are for one thread at a time
};

ZipArchive::ZipArchive(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  state_->path = path.string();
  state_->archive = open_archive(state_->path);
  const zip_int64_t count = zip_get_num_entries(state_->archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<zip_uint64_t>(i);
    const char* name = zip_get_name(state_->archive.get(), place, ZIP_FL_ENC_GUESS);
    const std::string text = name == nullptr ? "" : name;
    if (text.empty() || text.back() == '/') continue;
    state_->names.push_back(text);
    state_->places.push_back(place);
  }
}

ZipArchive::~ZipArchive() = default;

const std::vector<std::string>& ZipArchive::names() const { return state_->names; }

std::string ZipArchive::describe(size_t index) const {
  return state_->path + ":" + state_->names.at(index);
}

std::string ZipArchive::read(size_t index) const {
  const std::lock_guard<std::mutex> lock(state_->turn);
  zip_t* archive = state_->archive.get();
  const zip_uint64_t place = state_->places.at(index);
  zip_stat_t entry;
  const bool has_size =
      zip_stat_index(archive, place, 0, &entry) == 0 && (entry.valid & ZIP_STAT_SIZE) != 0;
  if (has_size) check_decoded_size(entry.size, describe(index));
  const FileHandle file(has_size ? zip_fopen_index(archive, place, 0) : nullptr);
  std::string bytes;
  const char* problem = file ? unpack(file.get(), entry.size, bytes) : zip_strerror(archive);
  if (problem != nullptr) {
    throw bad_input("{}: cannot be unpacked ({}); fetch or make the archive again", describe(index),
                    problem);
  }
  return bytes;
}

}  // namespace bespoke
