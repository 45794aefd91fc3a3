#pragma once

#include "bespoke/measure/measure.h"

namespace bespoke {

// The measures of the registry (measure.cpp), a file each. All but the first return null where the
// inputs lack what they need.

// PSNR and SNR against the reference, and quantiles of the squared error.
MeasurePtr error_measure(const MeasureInputs& inputs);
// PSNR of the latents, where errors are those of what they decode to.
MeasurePtr latent_error_measure(const MeasureInputs& inputs);
// Fréchet distances to the reference's samples and to real data.
MeasurePtr frechet_measure(const MeasureInputs& inputs);
// Of sounds: SNR of the latents and of the waveform.
MeasurePtr sound_error_measure(const MeasureInputs& inputs);
// How the spectrum changes where a gap in a sound was filled.
MeasurePtr joint_flux_measure(const MeasureInputs& inputs);
// How many samples show what their prompts say.
MeasurePtr agreement_measure(const MeasureInputs& inputs);
// PSNR by the samples' own guidance weights.
MeasurePtr guidance_error_measure(const MeasureInputs& inputs);

}  // namespace bespoke
