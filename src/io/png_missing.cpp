// In place of png.cpp where libpng was not found.

#include "bespoke/base/error.h"
#include "bespoke/io/png.h"

namespace bespoke {

namespace {

Error missing() {
  return Error(ErrorKind::failed,
               "this build has no PNG; install libpng-dev and build Bespoke again");
}

}  // namespace

std::string encode_png(const torch::Tensor&, const PngText&) { throw missing(); }

void write_png(const std::filesystem::path&, const torch::Tensor&, const PngText&) {
  throw missing();
}

PngFile decode_png(std::string, const std::string&) { throw missing(); }

PngFile read_png(const std::filesystem::path&) { throw missing(); }

}  // namespace bespoke
