#include "bespoke/base/error.h"
#include "bespoke/solver/named_solver.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

static void resolve(const std::string& method) {
  constexpr int kNfe = 6;
  const FieldDescription field = {Prediction::velocity, fm_ot_schedule(), {}};
  SolverName name;
  name.method = method;
  const CatalogueEntry entry = entry_of(name);
  const int nfe = entry.steps(kNfe) > 0 ? kNfe : entry.evaluations_per_step;
  resolve_solver(name, nfe, field).validate();
}

// Users' own methods: a tableau or a multistep rule.
static const Registered method_rule("method_rule", [](const std::string& bytes) {
  const MemoryFile file(bytes);
  try {
    resolve("tableau:" + file.path());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    resolve("multistep:" + file.path());
  }
});

}  // namespace bespoke::fuzz
