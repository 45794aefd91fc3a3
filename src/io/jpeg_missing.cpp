// In place of jpeg.cpp where libjpeg was not found.

#include "bespoke/base/error.h"
#include "bespoke/io/jpeg.h"

namespace bespoke {

torch::Tensor decode_jpeg(const std::string&, const std::string&) {
  throw Error(ErrorKind::failed,
              "this build has no JPEG; install libjpeg-dev and build Bespoke again");
}

}  // namespace bespoke
