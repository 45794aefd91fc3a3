#include "runs/pickle.h"

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered pickle("pickle", [](const std::string& bytes) {
  const Pickle read = read_pickle(bytes, "x.pt");
  expect(read.root != nullptr, "a pickle that was read has a value");
  for (const PickleValue& value : read.values) {
    const bool call = value.kind == PickleValue::Kind::call;
    expect(!call || value.items.size() == 2, "a call has a function and arguments");
  }
});

}  // namespace bespoke::fuzz
