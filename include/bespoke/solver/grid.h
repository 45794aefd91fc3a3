#pragma once

#include <string>
#include <vector>

#include "bespoke/path/schedule.h"

namespace bespoke {

namespace detail {
struct Spec;
}

enum class GridKind {
  rule,       // makes times for any model
  published,  // a list that others found for one model
  numbers,    // the user's own list
};

// Where a solver's steps begin and end. Users name a grid with its options, for instance
// "uniform-lambda", "karras:rho=7,sigma_min=0.002" or "custom:0,0.3,0.7,1".
struct GridEntry {
  std::string name;
  std::string description;
  std::vector<std::string> options;
  std::vector<double> (*make)(const detail::Spec&, int steps, const Schedule&);
  GridKind kind = GridKind::rule;
};
const std::vector<GridEntry>& grid_registry();

// steps + 1 increasing times. The rules but lambda-range and karras take start= and end=, so that a
// run may begin after 0 and end before 1.
std::vector<double> make_grid(const std::string& text, int steps, const Schedule& schedule);

// The times of lists as other tools have them, from the most noise to the least: sigmas, as
// tool_sigma counts them, or timesteps, indices of the schedule's discrete levels (thousandths of
// 1 - t where it has none). The data's time is put behind them unless they reach it.
std::vector<double> times_of_sigmas(const Schedule& schedule, const std::vector<double>& sigmas);
std::vector<double> times_of_timesteps(const Schedule& schedule,
                                       const std::vector<double>& timesteps);

// The same grid, but starting no earlier than `start` unless its text says where it starts.
std::string grid_from(const std::string& text, double start, const Schedule& schedule);

}  // namespace bespoke
