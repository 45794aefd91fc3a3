#pragma once

#include <torch/types.h>

#include <cstdint>

#include "bespoke/model/model.h"
#include "bespoke/path/guidance_weight.h"

namespace bespoke {

// The model with classifier-free guidance: f_w = (1 + w) f(x | y) - w f(x | null). Every prediction
// is an affine function of the velocity with the same coefficients for both, so guiding the
// prediction guides the velocity. Both are computed in one doubled batch; samples at times where w
// = 0 have no second half, and conditions without a null value are the same in both. The result is
// float32 or wider, since the difference would lose what half precision has. Differentiable in x
// and t, w(t) included. `null_conditions` have a batch of one.
//
// Over a range each sample has its own w, the condition kGuidanceCondition: [batch] float64.
//
// A clipped model is guided first and clipped then.
//
// predict_parts gives f(x | y) and f(x | y) - f(x | null), to be weighed by a solver with built-in
// guidance; w has no part in them.
ModelPtr guided_model(ModelPtr model, GuidanceWeight weight, Conditions null_conditions);

// The conditions where a model on this device reads them: there, so that no call has to send them
// again, but the samples' own weights on the CPU.
Conditions conditions_on(const Conditions& conditions, torch::Device device);

// The weights of samples first ... first + count - 1 of a seed, spread evenly over the range: what
// a sample has depends on its seed and number alone.
torch::Tensor guidance_weights(const GuidanceRange& range, uint64_t seed, uint64_t first,
                               int64_t count);

}  // namespace bespoke
