#pragma once

#include "bespoke/model/model.h"
#include "bespoke/path/guidance_weight.h"

namespace bespoke {

// Classifier-free guidance: f_w = (1 + w) f(x | y) - w f(x | null). Every prediction is an affine
// function of the velocity with the same coefficients for both, so guiding the prediction guides
// the velocity. Both are computed in one doubled batch; samples at times where w = 0 have no second
// half, and conditions without a null value are the same in both. The result is float32 or wider,
// since the difference would lose what half precision has. Differentiable in x and t, w(t)
// included. `null_conditions` have a batch of one.
ModelPtr guided_model(ModelPtr model, GuidanceWeight weight, Conditions null_conditions);

}  // namespace bespoke
