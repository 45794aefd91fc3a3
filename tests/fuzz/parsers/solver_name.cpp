#include "bespoke/solver/named_solver.h"

#include "fuzz/parser.h"

namespace bespoke::fuzz {

// Names that stand for files are left out: those have parsers of their own.
static bool reads_a_file(const SolverName& name) {
  return name.is_file() || name.method.find(':') != std::string::npos ||
         name.schedule.rfind("table:", 0) == 0;
}

static const Registered solver_name("solver_name", [](const std::string& bytes) {
  constexpr int kNfe = 6;
  const FieldDescription field = {Prediction::velocity, vp_schedule(), {}};
  for (const auto& text : split_solver_names(bytes)) {
    const SolverName name = SolverName::parse(text);
    if (reads_a_file(name)) continue;
    expect(to_string(SolverName::parse(to_string(name))) == to_string(name), "a name reads back");
    resolve_solver(name, kNfe, field).validate();
  }
});

}  // namespace bespoke::fuzz
