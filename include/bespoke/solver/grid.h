#pragma once

#include <string>
#include <vector>

#include "bespoke/path/schedule.h"

namespace bespoke {

namespace detail {
struct Spec;
}

// Where the times of a grid come from.
enum class GridKind {
  rule,       // makes times for any model
  published,  // a list that others found for one model
  numbers,    // the user's own list
};

// Where a solver's steps begin and end. Users name a grid with its options, for instance
// "uniform-lambda", "karras:rho=7,sigma_min=0.002" or "custom:0,0.3,0.7,1".
struct GridEntry {
  std::string name;                  // as users write it
  std::string description;           // one line for lists
  std::vector<std::string> options;  // the names of its options
  // Makes steps + 1 times from the options given.
  std::vector<double> (*make)(const detail::Spec&, int steps, const Schedule&);
  GridKind kind = GridKind::rule;  // where its times come from
};
// The registry: every grid that users can name.
const std::vector<GridEntry>& grid_registry();

// Makes steps + 1 increasing times from what users type. The rules but lambda-range and karras take
// start= and end=, so that a run may begin after 0 and end before 1.
std::vector<double> make_grid(const std::string& text, int steps, const Schedule& schedule);

// The times of a list of sigmas as other tools have it: as tool_sigma counts them, from the most
// noise to the least. The data's time is put behind them unless they reach it.
std::vector<double> times_of_sigmas(const Schedule& schedule, const std::vector<double>& sigmas);
// The same of a list of timesteps: indices of the schedule's discrete levels, thousandths of 1 - t
// where it has none.
std::vector<double> times_of_timesteps(const Schedule& schedule,
                                       const std::vector<double>& timesteps);

// The text of the same grid, but starting no earlier than `start` unless the text says where it
// starts.
std::string grid_from(const std::string& text, double start, const Schedule& schedule);

}  // namespace bespoke
