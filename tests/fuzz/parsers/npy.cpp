#include "bespoke/io/npy.h"

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered npy("npy", [](const std::string& bytes) {
  expect(parse_npy(bytes, "x.npy").is_contiguous(), "an array lies in order");
});

}  // namespace bespoke::fuzz
