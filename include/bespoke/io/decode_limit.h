#pragma once

#include <cstdint>
#include <string>

namespace bespoke {

// How much memory one picture, sound or file of an archive may take
// once it is unpacked, in bytes: 512 MiB unless set. A few kilobytes can unpack to gigabytes. Set
// it before reading begins.
void set_decode_limit(uint64_t bytes);
uint64_t decode_limit();

namespace detail {

// Throws bad input, before anything is unpacked, where `source` says it is larger.
void check_decoded_size(uint64_t bytes, const std::string& source);

}  // namespace detail

}  // namespace bespoke
