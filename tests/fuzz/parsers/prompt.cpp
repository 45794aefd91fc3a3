#include "bespoke/base/text.h"
#include "bespoke/model/vocabulary.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

// A prompt, and after each line break a caption that its vocabulary is made of.
static const Registered prompt("prompt", [](const std::string& bytes) {
  constexpr int64_t kLength = 16;
  const std::vector<std::string> lines = detail::split(bytes, '\n');
  const Vocabulary vocabulary = Vocabulary::of({lines.begin() + 1, lines.end()});
  const auto tokens = vocabulary.tokens(lines.front(), kLength);
  expect(vocabulary.tokens(vocabulary.caption(tokens), kLength) == tokens, "a prompt reads back");
});

}  // namespace bespoke::fuzz
