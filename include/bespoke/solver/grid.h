#pragma once

#include <string>
#include <vector>

#include "bespoke/path/schedule.h"

namespace bespoke {

namespace detail {
struct Spec;
}

// Where a solver's steps begin and end. Users name a grid with its options, for instance
// "uniform-lambda", "karras:rho=7,sigma_min=0.002" or "custom:0,0.3,0.7,1".
struct GridEntry {
  std::string name;
  std::string description;
  std::vector<std::string> options;
  std::vector<double> (*make)(const detail::Spec&, int steps, const Schedule&);
};
const std::vector<GridEntry>& grid_registry();

// steps + 1 increasing times. Every grid but lambda-range, karras and custom takes start= and end=,
// so that a run may begin after 0 and end before 1.
std::vector<double> make_grid(const std::string& text, int steps, const Schedule& schedule);

// The same grid, but starting no earlier than `start` unless its text says where it starts.
std::string grid_from(const std::string& text, double start, const Schedule& schedule);

}  // namespace bespoke
