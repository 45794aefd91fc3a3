#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bespoke/core/psnr.h"
#include "bespoke/model/model.h"
#include "bespoke/solver/ns_solver.h"
#include "bespoke/solver/reference.h"

namespace bespoke {

struct Contender {
  std::string name;
  NsSolver solver;
};

struct CompareOptions {
  int64_t batch = 64;
  Tolerances tolerances;
  double peak = kUnitPeak;  // peak-to-peak range of what is compared
  // Where the difference is measured; null compares the samples themselves.
  std::function<torch::Tensor(const torch::Tensor&)> decode;
  std::function<void(double)> on_progress;  // fraction done, 0 ... 1
};

struct ComparisonRow {
  std::string name;
  int nfe;
  // Of all samples; NaN where the solver diverged.
  double psnr;                           // mean, decibels
  double snr;                            // mean of |truth|^2 / |difference|^2, decibels
  double mse_low, mse_median, mse_high;  // 5th, 50th and 95th percentile of the squared error
  double seconds;                        // a sample, in batches as asked for
};

struct Comparison {
  std::vector<ComparisonRow> rows;  // in the order of the contenders
  double reference_evaluations;     // mean per sample
};

// How near each solver's samples come to the model's own, from the same noise x0 [count, ...].
Comparison compare(const ModelPtr& model, const std::vector<Contender>& contenders,
                   const torch::Tensor& x0, const Conditions& conditions,
                   const CompareOptions& options);

}  // namespace bespoke
