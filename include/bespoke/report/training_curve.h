#pragma once

#include <optional>
#include <string>
#include <vector>

namespace bespoke {

// What a distillation's log.jsonl says of one iteration.
struct TrainingPoint {
  int start = 0;  // which of the initial solvers this descends from
  int iteration = 0;
  double loss = 0;
  std::optional<double> validation_psnr;  // dB, where the iterate was validated
};

struct TrainingCurve {
  std::string solver;  // as in the report's rows
  int nfe = 0;
  std::vector<TrainingPoint> points;
};

// The points of a log, in its order. Lines that are no JSON objects are passed over: a killed run
// may leave one half written.
std::vector<TrainingPoint> parse_training_log(const std::string& text);

// The iterate a distillation returns: the first with the highest validation PSNR. None where
// nothing was validated.
std::optional<TrainingPoint> best_iterate(const std::vector<TrainingPoint>& points);

}  // namespace bespoke
