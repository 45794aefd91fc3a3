#include "bespoke/io/png.h"

#include "bespoke/io/decode_limit.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered png("png", [](const std::string& bytes) {
  set_decode_limit(1 << 20);
  expect(decode_png(bytes, "x.png").image.numel() > 0, "an image has pixels");
});

}  // namespace bespoke::fuzz
