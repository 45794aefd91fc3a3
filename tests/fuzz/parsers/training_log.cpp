#include "bespoke/base/error.h"
#include "bespoke/report/training_curve.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

// Lines that are none are passed over; a log without any is no log.
static const Registered training_log("training_log", [](const std::string& bytes) {
  const auto points = parse_training_log(bytes);
  best_iterate(points);
  if (points.empty()) throw bad_input("no line of it is of a log");
});

}  // namespace bespoke::fuzz
