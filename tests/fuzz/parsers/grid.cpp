#include "bespoke/solver/grid.h"

#include <algorithm>
#include <functional>

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered grid("grid", [](const std::string& bytes) {
  const SchedulePtr schedule = cosine_schedule();
  const auto times = make_grid(bytes, 4, *schedule);
  const auto tie = std::adjacent_find(times.begin(), times.end(), std::greater_equal<>());
  expect(times.size() == 5 && tie == times.end(), "times rise");
  expect(times.front() >= 0 && times.back() <= 1, "times are in [0, 1]");
  make_grid(grid_from(bytes, 0.01, *schedule), 4, *schedule);
});

}  // namespace bespoke::fuzz
