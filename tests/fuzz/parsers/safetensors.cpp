#include "bespoke/io/safetensors.h"

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered safetensors("safetensors", [](const std::string& bytes) {
  const std::string written = safetensors_bytes(parse_safetensors(bytes, "x.safetensors"));
  expect(safetensors_bytes(parse_safetensors(written, "x.safetensors")) == written,
         "tensors read back");
});

}  // namespace bespoke::fuzz
