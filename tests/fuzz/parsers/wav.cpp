#include "bespoke/io/wav.h"

#include "bespoke/io/decode_limit.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered wav("wav", [](const std::string& bytes) {
  set_decode_limit(1 << 20);
  expect(decode_wav(bytes, "x.wav").audio.dim() == 2, "a sound has channels");
});

}  // namespace bespoke::fuzz
