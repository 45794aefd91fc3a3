#pragma once

#include <torch/types.h>

#include <vector>

#include "bespoke/model/call_graphs.h"

namespace bespoke {

// A call that is differentiable in its first two arguments, x and t, and whose gradients are
// recorded as the call itself is. Nothing of it is kept for the gradient but the arguments: the
// call is made again where the gradient is asked for, and both are one recording. That costs a call
// more, and a fraction of the launches.
torch::Tensor call_with_recorded_gradients(const std::vector<torch::Tensor>& arguments,
                                           const TensorCall& call, CallGraphs& calls,
                                           CallGraphs& gradients);

}  // namespace bespoke
