#pragma once

#include <torch/types.h>

#include <cstdint>

namespace bespoke {

// Short-time Fourier transforms of sounds as matrix products: differentiable, on any device, and
// the same numbers whatever FFT a build has.

// The basis of a transform, [size, 2 (size / 2 + 1)] float32: cosines, then sines, each under a
// Hann window.
torch::Tensor fourier_basis(int64_t size);

// The power |X|^2 of x [..., length] as [..., frames, bins], in windows as long as the basis, one
// every `hop` samples; only whole windows.
torch::Tensor power_spectrum(const torch::Tensor& x, const torch::Tensor& basis, int64_t hop);

// The mel filters, [bins, bands] float32: triangles evenly spaced on the mel scale, which is how
// ears place pitches.
torch::Tensor mel_bands(int64_t bins, int64_t bands, double sample_rate);

}  // namespace bespoke
