#include "io/dataset_file.h"

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered dataset_file("dataset_file", [](const std::string& bytes) {
  const MemoryFile file(bytes);
  for (const auto& entry : open_dataset_file(file.path()).entries) entry.load();
});

}  // namespace bespoke::fuzz
