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
  int nfe = 8;                     // how many evaluations
  SchedulePtr schedule;            // of the model it is for
  std::string grid = {};           // empty: the entry's own default
  bool lower_order_final = false;  // for multistep exponential methods
};

// A solver by name. This list feeds the command line, the documentation and the tests; a new
// method is one row.
struct CatalogueEntry {
  std::string name;          // as users write it
  std::string family;        // Runge-Kutta, multistep, exponential ..., scale-time ...
  std::string description;   // one line for lists
  int order;                 // of the formula, on a smooth field with a full history
  int evaluations_per_step;  // of a step of the grid
  std::string default_grid;  // on paths from noise by diffusion; see grid_for
  bool can_lower_order;      // takes lower_order_final

  // The steps of the grid that spend exactly nfe >= 1 evaluations; 0 if there are none.
  std::function<int(int nfe)> steps;
  // Makes the solver on a grid. `infinite_at_end`: the velocity the solver will run on is infinite
  // at the end of the grid.
  std::function<NsSolver(const SolverRequest&, const std::vector<double>& grid,
                         bool infinite_at_end)>
      build;

  // The grid that its authors and users take where none is named. Exponential methods are run in
  // equal steps of t on flow paths, and on Karras's levels where noise is only added.
  std::string grid_for(const Schedule& schedule) const;

  // Its place in the solver taxonomy.
  std::string taxonomy() const;
};

// The entry of any Butcher tableau, in the catalogue or a user's own.
CatalogueEntry runge_kutta_entry(std::string name, std::string description, int order,
                                 const ButcherTableau& tableau);
// The entry of any stationary multistep rule, in the catalogue or a user's own.
CatalogueEntry multistep_entry(std::string name, std::string description, int order,
                               const MultistepRule& rule);

// Throws a usage error unless 1 <= nfe <= kMostEvaluations.
void check_nfe(int64_t nfe);

// The catalogue: every method that users can name.
const std::vector<CatalogueEntry>& catalogue();
// The entry of this name. An unknown one is a usage error that suggests the nearest.
const CatalogueEntry& find_solver(const std::string& name);

// The NS solver of a catalogue entry. Throws a usage error that names the nearest NFE where the
// method cannot spend the one asked for.
NsSolver make_solver(const CatalogueEntry& entry, const SolverRequest& request);
// The same for an entry by its name.
NsSolver make_solver(const std::string& name, const SolverRequest& request);

// As make_solver, but the method runs in the coordinates of another schedule, `via`, on a grid in
// that schedule's time: any scale-time solver.
NsSolver make_solver_via(const CatalogueEntry& entry, const SolverRequest& request,
                         const SchedulePtr& via);

}  // namespace bespoke
