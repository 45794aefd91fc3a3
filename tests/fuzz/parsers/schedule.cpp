#include "bespoke/path/schedule.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered schedule("schedule", [](const std::string& bytes) {
  if (bytes.rfind("table:", 0) == 0) return;  // of a file, which is a parser of its own
  const SchedulePtr made = make_schedule(bytes);
  const auto description = made->describe();
  expect(schedule_from_json(description)->describe() == description, "a schedule reads back");
  for (const double t : {0.0, 0.3, 1.0}) {
    const SchedulePoint point = made->at(t);
    expect(std::isfinite(point.alpha) && std::isfinite(point.sigma), "a path is finite");
  }
});

}  // namespace bespoke::fuzz
