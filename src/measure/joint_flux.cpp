#include "bespoke/measure/joint_flux.h"

#include <torch/torch.h>

#include <algorithm>

#include "bespoke/tensor/spectrum.h"

namespace bespoke {

namespace {

constexpr int64_t kFluxWindow = 128, kFluxHop = 32;
constexpr double kFluxFloor = 1e-3;  // power of a bin below which nobody hears a change

// Around one end, as many windows as hold it and one more on either side.
double flux_at(const torch::Tensor& sound, int64_t end, const torch::Tensor& basis) {
  const int64_t reach = kFluxWindow + kFluxHop;
  const int64_t first = std::max(int64_t{0}, end - reach);
  const int64_t last = std::min(sound.size(0), end + reach);
  if (last - first < kFluxWindow + kFluxHop) return 0;
  const torch::Tensor power =
      power_spectrum(sound.slice(0, first, last), basis, kFluxHop) + kFluxFloor;
  return (10 * power.log10()).diff(1, 0).abs().mean(1).max().item<double>();
}

}  // namespace

double joint_flux(const torch::Tensor& sound, const Gap& gap) {
  const torch::Tensor plain = sound.detach().to(torch::kCPU, torch::kFloat);
  const torch::Tensor basis = fourier_basis(kFluxWindow);
  return (flux_at(plain, gap.begin, basis) + flux_at(plain, gap.end, basis)) / 2;
}

}  // namespace bespoke
