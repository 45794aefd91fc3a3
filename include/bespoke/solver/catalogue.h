#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bespoke/path/schedule.h"
#include "bespoke/solver/multistep.h"
#include "bespoke/solver/ns_solver.h"
#include "bespoke/solver/runge_kutta.h"

namespace bespoke {

// What is asked of a catalogue entry.
struct SolverRequest {
  int nfe = 8;
  SchedulePtr schedule;
  std::string grid = {};           // empty: the entry's own default
  bool lower_order_final = false;  // for multistep exponential methods
};

// A solver by name. This list feeds the command line, the documentation and the tests; a new
// method is one row.
struct CatalogueEntry {
  std::string name;
  std::string family;  // Runge-Kutta, multistep, exponential ..., scale-time ...
  std::string description;
  int order;  // of the formula, on a smooth field with a full history
  int evaluations_per_step;
  std::string default_grid;  // on paths from noise by diffusion; see grid_for
  bool can_lower_order;      // takes lower_order_final

  // Steps of the grid that spend exactly nfe >= 1 evaluations; 0 if that cannot be done.
  std::function<int(int nfe)> steps;
  // `infinite_at_end`: the velocity the solver will run on is infinite at the end of the grid.
  std::function<NsSolver(const SolverRequest&, const std::vector<double>& grid,
                         bool infinite_at_end)>
      build;

  // The grid that its authors and users take where none is named. Exponential methods are run in
  // equal steps of t on flow paths, and on Karras's levels where noise is only added.
  std::string grid_for(const Schedule& schedule) const;

  // Its place in the solver taxonomy.
  std::string taxonomy() const;
};

// Rows for any tableau and any stationary rule, in the catalogue or a user's own.
CatalogueEntry runge_kutta_entry(std::string name, std::string description, int order,
                                 const ButcherTableau& tableau);
CatalogueEntry multistep_entry(std::string name, std::string description, int order,
                               const MultistepRule& rule);

// Throws a usage error unless 1 <= nfe <= kMostEvaluations.
void check_nfe(int64_t nfe);

const std::vector<CatalogueEntry>& catalogue();
const CatalogueEntry& find_solver(const std::string& name);

// The NS solver of a catalogue entry. Throws a usage error that names the nearest NFE where the
// method cannot spend the one asked for.
NsSolver make_solver(const CatalogueEntry& entry, const SolverRequest& request);
NsSolver make_solver(const std::string& name, const SolverRequest& request);

// As make_solver, but the method runs in the coordinates of another schedule, `via`, on a grid in
// that schedule's time: any scale-time solver.
NsSolver make_solver_via(const CatalogueEntry& entry, const SolverRequest& request,
                         const SchedulePtr& via);

}  // namespace bespoke
