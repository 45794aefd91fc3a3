#pragma once

#include <torch/types.h>

#include "bespoke/recipe/infill.h"

namespace bespoke {

// How fast the spectrum of a sound [length] changes where a gap in it was filled: the largest mean
// change in dB, over all pitches, between neighbouring windows of 128 samples, 32 apart, that hold
// one of the gap's two ends; the mean of both. A click is heard as a large one. Clicks are told
// from sounds that begin there by comparing with the recording.
double joint_flux(const torch::Tensor& sound, const Gap& gap);

}  // namespace bespoke
