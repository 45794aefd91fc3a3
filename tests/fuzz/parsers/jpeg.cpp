#include "bespoke/io/jpeg.h"

#include "bespoke/io/decode_limit.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered jpeg("jpeg", [](const std::string& bytes) {
  set_decode_limit(1 << 20);
  expect(decode_jpeg(bytes, "x.jpg").numel() > 0, "an image has pixels");
});

}  // namespace bespoke::fuzz
