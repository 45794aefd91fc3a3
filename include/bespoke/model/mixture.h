#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bespoke/model/model.h"

namespace bespoke {

// sum_k weight_k N(mean_k, deviation_k^2 I), optionally split into classes: the test bed whose
// predictions are known in closed form.
struct Mixture {
  torch::Tensor means;             // [components, dimension] float64
  std::vector<double> deviations;  // positive
  std::vector<double> weights;     // positive, need not sum to one
  std::vector<int64_t> classes;    // class of each component; empty if unconditional

  int64_t class_count() const;
  void validate() const;
};

// Means are normal with deviation `spread`, deviations uniform in [min_deviation, max_deviation],
// weights equal; component k belongs to class k mod classes.
struct RandomMixtureOptions {
  int64_t dimension = 192;
  int64_t components = 12;
  int64_t classes = 0;
  uint64_t seed = 0;
  double spread = 0.6;
  double min_deviation = 0.08;
  double max_deviation = 0.23;
};
Mixture random_mixture(const RandomMixtureOptions& options);

// The exact model of a mixture for any schedule and prediction, computed in float64 per sample by
// hand-written kernels: the same bits for any batch size and thread count. Condition "class"
// (int64 [batch]): 0 ... C-1, with C the null class. `dtype` is the type of its outputs.
ModelPtr mixture_model(Mixture mixture, SchedulePtr schedule, Prediction prediction,
                       torch::ScalarType dtype = torch::kDouble);

}  // namespace bespoke
