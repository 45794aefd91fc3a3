#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bespoke/model/model.h"

namespace bespoke {

// A mixture of Gaussians, sum_k weight_k N(mean_k, deviation_k^2 I), optionally split into classes:
// the test bed whose predictions are known in closed form.
struct Mixture {
  torch::Tensor means;             // [components, dimension] float64
  std::vector<double> deviations;  // positive
  std::vector<double> weights;     // positive, need not sum to one
  std::vector<int64_t> classes;    // class of each component; empty if unconditional

  // How many classes the components have; 0 if unconditional.
  int64_t class_count() const;
  // Throws a bad-input error where shapes or numbers make no sense.
  void validate() const;
};

// What a random mixture is like.
struct RandomMixtureOptions {
  int64_t dimension = 192;      // numbers of a sample
  int64_t components = 12;      // Gaussians, with equal weights
  int64_t classes = 0;          // component k belongs to class k mod classes; 0: unconditional
  uint64_t seed = 0;            // of all that is random
  double spread = 0.6;          // deviation of the means, which are normal
  double min_deviation = 0.08;  // the least deviation of a component
  double max_deviation = 0.23;  // the greatest; they are uniform in between
};
// Draws a mixture.
Mixture random_mixture(const RandomMixtureOptions& options);

// The exact model of a mixture for any schedule and prediction, computed in float64 per sample by
// hand-written kernels: the same bits for any batch size and thread count. Condition "class"
// (int64 [batch]): 0 ... C-1, with C the null class. `dtype` is the type of its outputs.
ModelPtr mixture_model(Mixture mixture, SchedulePtr schedule, Prediction prediction,
                       torch::ScalarType dtype = torch::kDouble);

}  // namespace bespoke
