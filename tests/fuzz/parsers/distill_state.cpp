#include "bespoke/distill/state.h"

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered distill_state("distill_state", [](const std::string& bytes) {
  const DistillState state = parse_distill_state(bytes, "checkpoint.json");
  expect(state.chosen < static_cast<int64_t>(state.starts.size()), "the start chosen is there");
  const std::string text = to_json_text(state);
  expect(to_json_text(parse_distill_state(text, "checkpoint.json")) == text, "a state reads back");
});

}  // namespace bespoke::fuzz
