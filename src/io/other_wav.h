#pragma once

#include <string>

#include "bespoke/io/wav.h"

namespace bespoke::detail {

// What wav.cpp does not read itself: every encoding but 16-bit PCM, through libsndfile. In a build
// without it the refusal names the package to install.
WavFile decode_other_wav(std::string bytes, const std::string& source);

}  // namespace bespoke::detail
