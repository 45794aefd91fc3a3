#include "bespoke/io/decode_limit.h"

#include <atomic>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;
std::atomic<uint64_t> limit{512 * kMebibyte};

}  // namespace

void set_decode_limit(uint64_t bytes) { limit = bytes; }

uint64_t decode_limit() { return limit; }

void detail::check_decoded_size(uint64_t bytes, const std::string& source) {
  if (bytes <= decode_limit()) return;
  throw bad_input(
      "{}: would take {} MiB when unpacked, the limit is {}; raise it if the file is meant to be "
      "so "
      "large",
      source, bytes / kMebibyte + 1, decode_limit() / kMebibyte);
}

}  // namespace bespoke
