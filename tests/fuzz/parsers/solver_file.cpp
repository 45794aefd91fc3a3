#include "bespoke/solver/solver_file.h"

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered solver_file("solver_file", [](const std::string& bytes) {
  const std::string text = to_json_text(parse_solver_file(bytes, "x.solver.json"));
  expect(to_json_text(parse_solver_file(text, "x.solver.json")) == text, "a solver reads back");
});

}  // namespace bespoke::fuzz
