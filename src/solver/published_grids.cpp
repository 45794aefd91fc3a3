#include "published_grids.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"

namespace bespoke {

namespace {

using Levels = std::vector<double>;
using LevelTable = std::map<std::string, Levels>;

// research.nvidia.com/labs/toronto-ai/AlignYourSteps/howto.html
const LevelTable& ays_table() {
  static const LevelTable table = {
      {"sd15",
       {14.6146412293, 6.4745760956, 3.8636745985, 2.6946151520, 1.8841921177, 1.3943805092,
        0.9642583904, 0.6523686016, 0.3977456272, 0.1515232662, 0.0291671582}},
      {"sdxl",
       {14.6146412293, 6.3184485287, 3.7681790315, 2.1811480769, 1.3405244945, 0.8620721141,
        0.5550693289, 0.3798540708, 0.2332364134, 0.1114188177, 0.0291671582}},
      {"svd", {700, 54.5, 15.886, 7.977, 4.248, 1.789, 0.981, 0.403, 0.173, 0.034, 0.002}}};
  return table;
}

// github.com/bebebe666/OptimalSteps
const LevelTable& optimal_steps_table() {
  static const LevelTable table = {
      {"flux",
       {0.9968, 0.9886, 0.9819, 0.975, 0.966, 0.9471, 0.9158, 0.8287, 0.5512, 0.2808, 0.001}},
      {"wan", {1,     0.997, 0.995, 0.993, 0.991, 0.989, 0.987, 0.985, 0.98,  0.975, 0.973,
               0.968, 0.96,  0.946, 0.927, 0.902, 0.864, 0.776, 0.539, 0.208, 0.001}}};
  return table;
}

// github.com/zju-pi/diff-sampler, gits-main: of 2, 3, ... 20 steps, without what all have, the
// largest level in front and the smallest behind.
constexpr double kGitsLargest = 14.61464119, kGitsSmallest = 0.02916753;
const std::vector<Levels>& gits_table() {
  static const std::vector<Levels> table = {
      {0.803307},
      {1.56271636, 0.52423614},
      {2.36326075, 0.92192322, 0.36617002},
      {2.84484982, 1.24153244, 0.59516323, 0.25053367},
      {5.85520077, 2.05039096, 0.95350921, 0.45573691, 0.17026083},
      {5.85520077, 2.45070267, 1.24153244, 0.64427125, 0.29807833, 0.09824532},
      {5.85520077, 2.45070267, 1.36964464, 0.803307, 0.45573691, 0.25053367, 0.09824532},
      {5.85520077, 2.84484982, 1.61558151, 0.95350921, 0.59516323, 0.36617002, 0.19894916,
       0.09824532},
      {5.85520077, 2.84484982, 1.67050016, 1.08895338, 0.74807048, 0.50118381, 0.32104823,
       0.19894916, 0.09824532},
      {5.85520077, 2.95596409, 1.84880662, 1.24153244, 0.83188516, 0.59516323, 0.41087446,
       0.27464288, 0.17026083, 0.09824532},
      {5.85520077, 3.07277966, 1.98035145, 1.36964464, 0.95350921, 0.69515091, 0.50118381,
       0.36617002, 0.25053367, 0.17026083, 0.09824532},
      {6.77309084, 3.46139455, 2.36326075, 1.56271636, 1.08895338, 0.803307, 0.59516323, 0.45573691,
       0.34370604, 0.25053367, 0.17026083, 0.09824532},
      {6.77309084, 3.46139455, 2.45070267, 1.61558151, 1.162866, 0.86115354, 0.64427125, 0.50118381,
       0.38853383, 0.29807833, 0.22545385, 0.17026083, 0.09824532},
      {7.49001646, 4.65472794, 3.07277966, 2.12350607, 1.51179266, 1.08895338, 0.83188516,
       0.64427125, 0.50118381, 0.38853383, 0.29807833, 0.22545385, 0.17026083, 0.09824532},
      {7.49001646, 4.65472794, 3.07277966, 2.12350607, 1.51179266, 1.08895338, 0.83188516,
       0.64427125, 0.50118381, 0.41087446, 0.32104823, 0.25053367, 0.19894916, 0.13792117,
       0.09824532},
      {7.49001646, 4.65472794, 3.07277966, 2.12350607, 1.51179266, 1.08895338, 0.83188516,
       0.64427125, 0.50118381, 0.41087446, 0.34370604, 0.27464288, 0.22545385, 0.17026083,
       0.13792117, 0.09824532},
      {7.49001646, 4.65472794, 3.07277966, 2.19988537, 1.61558151, 1.20157266, 0.92192322,
       0.72133851, 0.57119018, 0.45573691, 0.36617002, 0.29807833, 0.25053367, 0.19894916,
       0.17026083, 0.13792117, 0.09824532},
      {7.49001646, 4.65472794, 3.07277966, 2.19988537, 1.61558151, 1.24153244, 0.95350921,
       0.74807048, 0.59516323, 0.4783645, 0.38853383, 0.32104823, 0.27464288, 0.22545385,
       0.19894916, 0.17026083, 0.13792117, 0.09824532},
      {7.49001646, 4.65472794, 3.07277966, 2.19988537, 1.61558151, 1.24153244, 0.95350921,
       0.74807048, 0.59516323, 0.50118381, 0.41087446, 0.34370604, 0.29807833, 0.25053367,
       0.22545385, 0.19894916, 0.17026083, 0.13792117, 0.09824532}};
  return table;
}

// The levels of a whole list, its smallest included, for another number of steps.
Levels level_at_each_step(const Levels& list, int steps) {
  const auto intervals = static_cast<double>(list.size() - 1);
  Levels levels;
  for (int i = 0; i < steps; ++i) {
    const double place = intervals * i / steps;
    const auto before = static_cast<size_t>(place);
    const double part = place - static_cast<double>(before);
    const bool exact = part == 0;
    levels.push_back(
        exact ? list[before]
              : std::exp((1 - part) * std::log(list[before]) + part * std::log(list[before + 1])));
  }
  return levels;
}

std::vector<std::string> names_of(const LevelTable& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.push_back(entry.first);
  return names;
}

Levels levels_in(const LevelTable& table, const std::string& what, const std::string& model,
                 int steps) {
  const auto entry = table.find(model);
  if (entry == table.end()) {
    throw usage_error("{}", detail::unknown_name(what, model, names_of(table)));
  }
  return level_at_each_step(entry->second, steps);
}

}  // namespace

Levels ays_levels(const std::string& model, int steps) {
  return levels_in(ays_table(), "model of the grid ays", model, steps);
}

Levels gits_levels(int steps) {
  const auto& table = gits_table();
  const auto most = static_cast<int>(table.size()) + 1;
  Levels list = {kGitsLargest};
  if (steps > 1) {
    const Levels& inner = table[static_cast<size_t>(std::min(steps, most)) - 2];
    list.insert(list.end(), inner.begin(), inner.end());
  }
  list.push_back(kGitsSmallest);
  return level_at_each_step(list, steps);
}

Levels optimal_steps_levels(const std::string& model, int steps) {
  return levels_in(optimal_steps_table(), "model of the grid optimal-steps", model, steps);
}

}  // namespace bespoke
