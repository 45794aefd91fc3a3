// In place of zip.cpp where libzip was not found.

#include "bespoke/base/error.h"
#include "bespoke/io/zip.h"

namespace bespoke {

struct ZipArchive::State {
  std::vector<std::string> names;
};

ZipArchive::ZipArchive(const std::filesystem::path&) {
  throw Error(ErrorKind::failed,
              "this build cannot read zip archives; unpack the archive, or install libzip-dev and "
              "build Bespoke again");
}

ZipArchive::~ZipArchive() = default;

// None can be called, since no archive can be made.
const std::vector<std::string>& ZipArchive::names() const { return state_->names; }
std::string ZipArchive::read(size_t) const { return ""; }
std::string ZipArchive::describe(size_t) const { return ""; }

}  // namespace bespoke
