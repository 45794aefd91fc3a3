#pragma once

#include "bespoke/model/model.h"

namespace bespoke {

// Classifier-free guidance: f_w = (1 + w) f(x | y) - w f(x | null), so w = 0 is unguided and a
// diffusers-style guidance_scale is 1 + w. Every prediction is an affine function of the velocity
// with the same coefficients for both, so guiding the prediction guides the velocity. Both are
// computed in one doubled batch; conditions without a null value are the same in both halves.
// `null_conditions` have a batch of one.
ModelPtr guided_model(ModelPtr model, double w, Conditions null_conditions);

}  // namespace bespoke
