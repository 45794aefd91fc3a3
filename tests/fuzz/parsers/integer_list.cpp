#include "bespoke/base/text.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered integer_list("integer_list", [](const std::string& bytes) {
  const auto list = detail::parse_integer_list(bytes, "--seeds");
  expect(!list.empty() && list.size() <= 1'000'000, "a list has an end");
});

}  // namespace bespoke::fuzz
