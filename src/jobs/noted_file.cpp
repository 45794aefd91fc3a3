#include "noted_file.h"

#include <fmt/format.h>

#include "bespoke/solver/field_differences.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

SolverFile read_noted(const std::string& path, const FieldDescription& field,
                      const Execution& execution) {
  SolverFile file = read_finished(path, field);
  for (const auto& difference : field_differences(file, field).doubtful) {
    execution.note(fmt::format("warning: {} {}", path, difference));
  }
  return file;
}

}  // namespace bespoke
