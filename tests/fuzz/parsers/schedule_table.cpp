#include "bespoke/path/schedule.h"

#include <nlohmann/json.hpp>

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered schedule_table("schedule_table", [](const std::string& bytes) {
  const MemoryFile file(bytes);
  const SchedulePtr made = make_schedule("table:" + file.path());
  const auto description = made->describe();
  expect(schedule_from_json(description)->describe() == description, "a table reads back");
});

}  // namespace bespoke::fuzz
