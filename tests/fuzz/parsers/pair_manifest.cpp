#include "bespoke/recipe/pair_manifest.h"

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered pair_manifest("pair_manifest", [](const std::string& bytes) {
  const PairManifest manifest = parse_pair_manifest(bytes, "pairs/manifest.json");
  check_plan(manifest.plan);
  expect(manifest.count() >= 1, "a manifest is of some pairs");
});

}  // namespace bespoke::fuzz
