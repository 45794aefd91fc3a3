#include "bespoke/io/resample.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace bespoke {

namespace {

constexpr double kLobes = 16;  // of the sinc, on either side

// A low-pass of the lower rate's band, at `distance` samples of the higher one's time.
double windowed_sinc(double distance, double band) {
  const double at = distance * band;
  if (std::abs(at) >= kLobes) return 0;
  const double pi = std::acos(-1.0);
  const double sinc = at == 0 ? 1 : std::sin(pi * at) / (pi * at);
  return band * sinc * (0.5 + 0.5 * std::cos(pi * at / kLobes));
}

// One channel.
void resample_row(const float* in, int64_t length, double step, double band, float* out,
                  int64_t count) {
  const double reach = kLobes / band;
  for (int64_t i = 0; i < count; ++i) {
    const double at = static_cast<double>(i) * step;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(at - reach)));
    const auto last = std::min(length - 1, static_cast<int64_t>(std::floor(at + reach)));
    double sum = 0;
    for (int64_t k = first; k <= last; ++k) {
      sum += in[k] * windowed_sinc(static_cast<double>(k) - at, band);
    }
    out[i] = static_cast<float>(sum);
  }
}

}  // namespace

torch::Tensor resample(const torch::Tensor& sound, int64_t from, int64_t to) {
  torch::Tensor in = sound.to(torch::kCPU, torch::kFloat).contiguous();
  if (from == to) return in;
  const int64_t length = in.size(-1), count = (length * to + from - 1) / from;
  std::vector<int64_t> sizes = in.sizes().vec();
  sizes.back() = count;
  torch::Tensor out = torch::empty(sizes);
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const int64_t rows = length == 0 ? 0 : in.numel() / length;
  for (int64_t row = 0; row < rows; ++row) {
    resample_row(in.data_ptr<float>() + row * length, length, step, std::min(1.0, 1 / step),
                 out.data_ptr<float>() + row * count, count);
  }
  return out;
}

}  // namespace bespoke
