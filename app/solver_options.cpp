#include "solver_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bespoke/core/error.h"
#include "bespoke/core/file.h"
#include "bespoke/solver/grid.h"
#include "bespoke/solver/multistep.h"
#include "bespoke/solver/runge_kutta.h"

namespace bespoke {

namespace {

constexpr char kFileSuffix[] = ".json";
constexpr char kTableau[] = "tableau:";
constexpr char kMultistep[] = "multistep:";

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

template <class Read>
auto read_json(const std::string& path, Read read) {
  try {
    return read(nlohmann::json::parse(read_file(path)));
  } catch (const nlohmann::json::exception& error) {
    throw bad_input("{}: {}", path, error.what());
  }
}

using Numbers = std::vector<double>;

ButcherTableau read_tableau(const std::string& path) {
  auto tableau = read_json(path, [](const nlohmann::json& json) {
    return ButcherTableau{json.at("a").get<std::vector<Numbers>>(), json.at("b").get<Numbers>(),
                          json.at("c").get<Numbers>()};
  });
  tableau.validate();
  return tableau;
}

MultistepRule read_multistep(const std::string& path) {
  return read_json(path, [](const nlohmann::json& json) {
    return MultistepRule{json.at("a").get<Numbers>(), json.at("b").get<Numbers>()};
  });
}

// A row of the catalogue made from a user's own file.
CatalogueEntry custom_entry(const std::string& text) {
  if (starts_with(text, kTableau)) {
    const ButcherTableau tableau = read_tableau(text.substr(sizeof(kTableau) - 1));
    return runge_kutta_entry(text, "user's tableau", 0, tableau);
  }
  const MultistepRule rule = read_multistep(text.substr(sizeof(kMultistep) - 1));
  return multistep_entry(text, "user's rule", 0, rule);
}

CatalogueEntry entry_of(const std::string& text) {
  const bool custom = starts_with(text, kTableau) || starts_with(text, kMultistep);
  return custom ? custom_entry(text) : find_solver(text);
}

SolverFile resolve_file(const std::string& path, int nfe, const FieldDescription& field) {
  SolverFile file = read_solver_file(path);
  if (nfe != 0 && file.solver.nfe() != nfe) {
    throw usage_error("{} spends {} evaluations, {} were asked for; leave out --nfe", path,
                      file.solver.nfe(), nfe);
  }
  const auto made_for = file.field.schedule->describe(), found = field.schedule->describe();
  if (made_for != found) {
    throw bad_input("{} was made for the schedule {}, the model has {}; distil or build one for it",
                    path, made_for.dump(), found.dump());
  }
  if (file.field.guidance != field.guidance) {
    fmt::print(stderr, "bespoke: {} was made for {}, this run has {}\n", path,
               to_string(file.field.guidance), to_string(field.guidance));
  }
  return file;
}

SchedulePtr via_schedule(const SchedulePtr& schedule, const SolverOptions& options) {
  if (!options.via.empty() && options.sigma_0 != 1) {
    throw usage_error("--via and --sigma0 are two changes of schedule; give one of them");
  }
  if (!options.via.empty()) return make_schedule(options.via);
  return options.sigma_0 == 1 ? nullptr : preconditioned_schedule(schedule, options.sigma_0);
}

}  // namespace

void SolverOptions::add_to(CLI::App& command) {
  std::vector<std::string> grids;
  for (const auto& entry : grid_registry()) grids.push_back(entry.name);
  command.add_option("--grid", grid,
                     fmt::format("where steps begin and end: {}; options as karras:rho=7 or "
                                 "uniform-t:end=0.999, times as custom:0,0.5,1",
                                 fmt::join(grids, ", ")));
  command.add_option("--via", via, "run the method in the coordinates of this schedule");
  command.add_option("--sigma0", sigma_0, "sigma_0 preconditioning; 1 is none")
      ->capture_default_str();
  command.add_flag("--lower-order-final", lower_order_final,
                   "let multistep exponential methods fall to order one towards the end");
}

bool is_solver_file(const std::string& text) {
  const std::string suffix = kFileSuffix;
  return !starts_with(text, kTableau) && !starts_with(text, kMultistep) &&
         text.size() > suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool can_spend(const std::string& text, int nfe) { return entry_of(text).steps(nfe) > 0; }

bool can_lower_order(const std::string& text) { return entry_of(text).can_lower_order; }

SolverFile resolve_solver(const std::string& text, int nfe, const FieldDescription& field,
                          const SolverOptions& options) {
  if (is_solver_file(text)) {
    if (!options.grid.empty() || !options.via.empty() || options.sigma_0 != 1 ||
        options.lower_order_final) {
      throw usage_error(
          "{} is a finished solver; leave out --grid, --via, --sigma0 and "
          "--lower-order-final",
          text);
    }
    return resolve_file(text, nfe, field);
  }
  const CatalogueEntry entry = entry_of(text);
  const SolverRequest request = {nfe, field.schedule, options.grid, options.lower_order_final};
  const SchedulePtr via = via_schedule(field.schedule, options);
  SolverFile file;
  file.solver = via ? make_solver_via(entry, request, via) : make_solver(entry, request);
  file.name = request.lower_order_final ? text + "+lower-order-final" : text;
  file.field = field;
  file.provenance = {{"made_by", "catalogue"},
                     {"solver", text},
                     {"grid", options.grid.empty() ? entry.default_grid : options.grid}};
  if (!options.via.empty()) file.provenance["via"] = options.via;
  if (options.sigma_0 != 1) file.provenance["sigma_0"] = options.sigma_0;
  if (request.lower_order_final) file.provenance["lower_order_final"] = true;
  return file;
}

}  // namespace bespoke
