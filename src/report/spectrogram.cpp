#include "bespoke/report/spectrogram.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "bespoke/tensor/spectrum.h"

namespace bespoke {

namespace {

constexpr int64_t kSpectrumSize = 256, kSpectrumWidth = 512;
constexpr int64_t kBarHeight = 6;
constexpr double kRange = 60;  // dB

// From black over violet and orange to pale yellow, by shares of the range.
torch::Tensor in_colour(const torch::Tensor& shares) {
  const torch::Tensor stops = torch::tensor(
      {{0., 0., 4.}, {87., 16., 110.}, {188., 55., 84.}, {249., 142., 9.}, {252., 255., 164.}});
  const torch::Tensor at = shares * static_cast<double>(stops.size(0) - 1);
  const torch::Tensor below = at.floor().clamp(0, static_cast<double>(stops.size(0) - 2));
  const torch::Tensor rest = (at - below).unsqueeze(-1);
  const torch::Tensor low = below.to(torch::kLong);
  return (stops.index({low}) * (1 - rest) + stops.index({low + 1}) * rest).permute({2, 0, 1});
}

void paint(const torch::Tensor& image, int64_t top, int64_t bottom, int64_t left, int64_t right) {
  const torch::Tensor colour = torch::tensor({80, 220, 255}, torch::kByte).view({3, 1, 1});
  image.slice(1, top, bottom).slice(2, left, right).copy_(colour);
}

void mark(const torch::Tensor& image, const TimeSpan& span, double seconds) {
  const int64_t height = image.size(1), width = image.size(2);
  const auto column = [&](double time) {
    const double at = std::round(time / seconds * static_cast<double>(width));
    return std::clamp(static_cast<int64_t>(at), int64_t{0}, width - 1);
  };
  const int64_t left = column(span.from), right = column(span.to);
  paint(image, 0, kBarHeight, left, right + 1);
  paint(image, 0, height, left, left + 1);
  paint(image, 0, height, right, right + 1);
}

}  // namespace

torch::Tensor spectrogram_image(const torch::Tensor& sound, int sample_rate,
                                const std::optional<TimeSpan>& marked) {
  const torch::Tensor plain = sound.detach().to(torch::kCPU, torch::kFloat);
  const int64_t length = plain.size(0), half = kSpectrumSize / 2;
  const int64_t hop = std::max<int64_t>(1, length / kSpectrumWidth);
  const torch::Tensor padded = torch::constant_pad_nd(plain, {half, half});
  const torch::Tensor power = power_spectrum(padded, fourier_basis(kSpectrumSize), hop);
  const torch::Tensor decibels = 10 * (power.clamp_min(1e-12)).log10();
  const torch::Tensor shares = ((decibels - decibels.max() + kRange) / kRange).clamp(0, 1);
  // Low pitches below, and none at zero.
  const torch::Tensor upright = shares.slice(1, 1).t().flip({0});
  torch::Tensor image = in_colour(upright).round().to(torch::kByte).contiguous();
  if (marked) mark(image, *marked, static_cast<double>(length) / sample_rate);
  return image;
}

}  // namespace bespoke
