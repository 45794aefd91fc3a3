#include "bespoke/tensor/spectrum.h"

#include <torch/torch.h>

#include <cmath>

namespace bespoke {

torch::Tensor fourier_basis(int64_t size) {
  const double turn = 2 * std::acos(-1.0) / static_cast<double>(size);
  const torch::Tensor n = torch::arange(size, torch::kDouble);
  const torch::Tensor phase =
      turn * n.unsqueeze(1) * torch::arange(size / 2 + 1, torch::kDouble).unsqueeze(0);
  const torch::Tensor window = (0.5 - 0.5 * (turn * n).cos()).unsqueeze(1);
  return (torch::cat({phase.cos(), phase.sin()}, 1) * window).to(torch::kFloat);
}

torch::Tensor power_spectrum(const torch::Tensor& x, const torch::Tensor& basis, int64_t hop) {
  const torch::Tensor windows = x.unfold(-1, basis.size(0), hop);
  const auto parts = torch::matmul(windows, basis).chunk(2, -1);
  return parts[0].square() + parts[1].square();
}

torch::Tensor mel_bands(int64_t bins, int64_t bands, double sample_rate) {
  const auto mel = [](double hertz) { return std::log1p(hertz / 700); };
  const double nyquist = sample_rate / 2, top = mel(nyquist);
  const torch::Tensor hertz = torch::linspace(0, nyquist, bins, torch::kDouble);
  const torch::Tensor edges = 700 * (torch::linspace(0, top, bands + 2, torch::kDouble).exp() - 1);
  const torch::Tensor low = edges.slice(0, 0, bands), middle = edges.slice(0, 1, bands + 1),
                      high = edges.slice(0, 2, bands + 2);
  const torch::Tensor rising = (hertz.unsqueeze(1) - low) / (middle - low);
  const torch::Tensor falling = (high - hertz.unsqueeze(1)) / (high - middle);
  return torch::minimum(rising, falling).clamp_min(0).to(torch::kFloat);
}

}  // namespace bespoke
