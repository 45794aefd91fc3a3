// In place of other_wav.cpp where libsndfile was not found.

#include "bespoke/base/error.h"
#include "other_wav.h"

namespace bespoke::detail {

WavFile decode_other_wav(std::string, const std::string& source) {
  throw bad_input(
      "{}: not 16-bit PCM in WAV, or broken, and this build reads no other sounds; convert it, or "
      "install libsndfile1-dev and build Bespoke again",
      source);
}

}  // namespace bespoke::detail
