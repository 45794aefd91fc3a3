#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bespoke {

// What a distillation's log.jsonl says of one iteration.
struct TrainingPoint {
  int start = 0;  // which of the initial solvers this descends from
  int iteration = 0;
  double loss = 0;
  std::optional<double> validation_psnr;  // dB, where the iterate was validated
  int64_t calls = 0;                      // of the model so far; a gradient counts as two
};

struct TrainingCurve {
  std::string solver;  // as in the report's rows
  int cost = 0;        // likewise
  std::vector<TrainingPoint> points;
  // Of the solver it began with: what finding it cost, and its validation PSNR.
  double calls_before = 0;
  std::optional<double> initial_psnr = std::nullopt;
};

// (calls, validation PSNR of the best iterate so far), from the solver it began with on.
std::vector<std::pair<double, double>> psnr_by_calls(const TrainingCurve& curve);

// The points of a log, in its order. Lines that are no JSON objects are passed over: a killed run
// may leave one half written.
std::vector<TrainingPoint> parse_training_log(const std::string& text);

// The iterate a distillation returns: the first with the highest validation PSNR. None where
// nothing was validated.
std::optional<TrainingPoint> best_iterate(const std::vector<TrainingPoint>& points);

}  // namespace bespoke
