#include "bespoke/solver/learned_solver.h"

#include "bespoke/solver/imported_solver.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered learned_solver("learned_solver", [](const std::string& bytes) {
  const NamedTables tables = named_tables(bytes);
  for (const auto& [name, table] : tables) {
    size_t entries = 1;
    for (const int64_t size : table.shape) entries *= static_cast<size_t>(size);
    expect(entries == table.values.size() && !name.empty(), "a table is whole and has a name");
  }
  LearnedSolverFacts facts;
  facts.schedule = "vp";
  facts.prediction = "noise";
  facts.method = "ddim";
  facts.sigmas = {1, 0.5, 0};
  import_solvers(describe_learned_solver(tables, facts, "x"), "x");
});

}  // namespace bespoke::fuzz
