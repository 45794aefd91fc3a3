#include "options/solver_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/solver/field_differences.h"
#include "bespoke/solver/grid.h"

namespace bespoke {

const char kSolverNames[] =
    "NAME[/GRID][@SCHEDULE] (bespoke solvers; @ runs it in the coordinates of another schedule, or "
    "@sigma0=2) or a .solver.json";

void SolverOptions::add_to(CLI::App& command) {
  std::vector<std::string> grids;
  for (const auto& entry : grid_registry()) grids.push_back(entry.name);
  command.add_option("--grid", grid,
                     fmt::format("where steps begin and end, for names without /GRID: {}; options "
                                 "as karras:rho=7 or uniform-t:end=0.999, times as custom:0,0.5,1",
                                 fmt::join(grids, ", ")));
  command.add_option("--via", via,
                     "run the method in the coordinates of this schedule, for names without "
                     "@SCHEDULE");
  command.add_option("--sigma0", sigma_0, "sigma_0 preconditioning; 1 is none")
      ->capture_default_str();
  command.add_flag("--lower-order-final", lower_order_final,
                   "let multistep exponential methods fall to order one towards the end");
}

SolverName completed(const std::string& text, const SolverOptions& options) {
  SolverName name = SolverName::parse(text);
  if (name.is_file()) {
    if (!options.grid.empty() || !options.via.empty() || options.sigma_0 != 1 ||
        options.lower_order_final) {
      throw usage_error(
          "{} is a finished solver; leave out --grid, --via, --sigma0 and --lower-order-final",
          text);
    }
    return name;
  }
  if (name.grid.empty()) name.grid = options.grid;
  if (options.sigma_0 != 1 && (!options.via.empty() || !name.schedule.empty())) {
    throw usage_error("{} and --sigma0 are two changes of schedule; give one of them",
                      options.via.empty() ? "@" + name.schedule : "--via");
  }
  if (name.schedule.empty()) name.schedule = options.via;
  if (options.sigma_0 != 1) name.schedule = fmt::format("sigma0={}", options.sigma_0);
  return name;
}

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

SolverFile resolve(const std::string& text, int nfe, const FieldDescription& field,
                   const SolverOptions& options) {
  constexpr int kDefaultNfe = 8;
  const SolverName name = completed(text, options);
  if (!name.is_file() && nfe == 0) nfe = kDefaultNfe;
  SolverFile file;
  try {
    file = resolve_solver(name, nfe, field, options.lower_order_final);
  } catch (const Error& error) {
    if (!name.is_file() || error.kind() != ErrorKind::usage) throw;
    throw usage_error("{} with --nfe", error.what());
  }
  if (name.is_file()) warn_of_differences(text, file, field);
  return file;
}

}  // namespace bespoke
