#pragma once

#include <torch/types.h>

#include <optional>

#include "bespoke/model/model.h"
#include "bespoke/path/clip.h"

namespace bespoke {

// Clips the data prediction [batch, ...] as a sampler does. Differentiable where the clip is.
torch::Tensor clipped(const torch::Tensor& data, const Clip& clip);

// The model as its sampler reads it: a data predictor on the same path, whatever the model itself
// predicts, whose predictions are clipped. So everything made of a model (velocities, the
// reference, lowered solvers) is of the clipped field. guided_model of it guides first and clips
// then, as samplers do. Where alpha = 0 leaves a noise prediction's data open, the model is asked a
// hair inside (data_call).
//
// A solver with built-in guidance weighs velocities, which a clip does not split into:
// predict_parts is bad input.
ModelPtr clipped_model(ModelPtr model, const Clip& clip);

// What a clipped model was made of; nothing for any other.
struct ClippedParts {
  ModelPtr model;
  Clip clip;
};
std::optional<ClippedParts> clipped_parts(const ModelPtr& model);

}  // namespace bespoke
