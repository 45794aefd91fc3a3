#pragma once

#include <torch/types.h>

namespace bespoke {

class DenseTrajectories {
 public:
  torch::Tensor state_at(double) const { return {}; }
};

}  // namespace bespoke
