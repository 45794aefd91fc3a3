#include "options/solver_options.h"

#include <fmt/format.h>

#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/solver/field_differences.h"

namespace bespoke {

const char kSolverNames[] =
    "NAME[+lower-order-final][/GRID][@SCHEDULE] (bespoke solvers; @ runs it in the coordinates of "
    "another schedule, or @sigma0=2) or a .solver.json";

namespace {

// Each once, however many solvers of the file are used.
void warn_of_differences(const std::string& path, const SolverFile& file,
                         const FieldDescription& field) {
  static std::set<std::string> said;
  for (const auto& difference : field_differences(file, field).doubtful) {
    if (!said.insert(path + " " + difference).second) continue;
    detail::say("bespoke: warning: {} {}", path, difference);
  }
}

}  // namespace

SolverFile finished(const std::string& path, const FieldDescription& field) {
  SolverFile file = read_finished(path, field);
  warn_of_differences(path, file, field);
  return file;
}

SolverFile resolve(const std::string& text, int nfe, const FieldDescription& field) {
  constexpr int kDefaultNfe = 8;
  const SolverName name = SolverName::parse(text);
  if (!name.is_file() && nfe == 0) nfe = kDefaultNfe;
  SolverFile file;
  try {
    file = resolve_solver(name, nfe, field);
  } catch (const Error& error) {
    if (!name.is_file() || error.kind() != ErrorKind::usage) throw;
    throw usage_error("{} with --nfe", error.what());
  }
  if (name.is_file()) warn_of_differences(text, file, field);
  return file;
}

}  // namespace bespoke
