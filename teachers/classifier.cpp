#include "teachers/classifier.h"

#include <algorithm>

#include "bespoke/tensor/spectrum.h"
#include "teachers/convolution.h"

namespace bespoke {

namespace {

constexpr int64_t kFine = 32;  // pixels, of images that are looked at pixel by pixel

// From -1 to 1 along an axis of x, in a channel of its own. Made of x itself, for a recording would
// keep the device and the batch of anything else.
torch::Tensor places_along(int64_t axis, const torch::Tensor& x) {
  const double between = static_cast<double>(std::max<int64_t>(x.size(axis) - 1, 1)) / 2;
  return (torch::ones_like(x.slice(1, 0, 1)).cumsum(axis) - 1) / between - 1;
}

constexpr int64_t kSpectralWindow = 256, kSpectralHop = 128, kBands = 32;
// Only how pitches are spaced depends on it, and little.
constexpr double kUsualRate = 8000;

// As it is stored, so that a file gives the same features.
torch::Tensor in_half(const torch::Tensor& x) { return x.to(torch::kHalf).to(torch::kFloat); }

// A sound is an image of height one.
torch::Tensor with_places(const torch::Tensor& x) {
  if (x.size(2) == 1) return torch::cat({x, places_along(3, x)}, 1);
  return torch::cat({x, places_along(2, x), places_along(3, x)}, 1);
}

}  // namespace

Classifier::Classifier(const NetworkShape& shape)
    : is_sound_(shape.is_sound()), by_spectrum_(is_sound_ && shape.sample[1] >= kLeastSpectral) {
  if (by_spectrum_) {
    basis_ = register_buffer("basis", in_half(fourier_basis(kSpectralWindow)));
    bands_ =
        register_buffer("bands", in_half(mel_bands(kSpectralWindow / 2 + 1, kBands, kUsualRate)));
  }
  const bool rows = !is_sound_ || by_spectrum_;
  struct Layer {
    int64_t channels, stride;
  };
  // Its own place is put beside every pixel: a mean over all of them forgets where things are.
  int64_t in = shape.sample[0] + (rows ? 2 : 1);
  // Large images are looked at more coarsely, for a quarter of the work.
  const bool large = !shape.is_sound() && std::min(shape.sample[1], shape.sample[2]) > kFine;
  const int64_t first = large ? 2 : 1;
  for (const Layer& layer : {Layer{48, first}, {48, 1}, {96, 2}, {96, 1}, {192, 2}, {192, 1}}) {
    const std::string name = std::to_string(convolutions_.size());
    convolutions_.push_back(register_module("convolution" + name,
                                            convolution({rows}, in, layer.channels, layer.stride)));
    norms_.push_back(register_module("norm" + name, group_norm(layer.channels)));
    in = layer.channels;
  }
  hidden_ = register_module("hidden", torch::nn::Linear(in, kFeatures));
  logits_ = register_module("logits", torch::nn::Linear(kFeatures, shape.classes));
}

// Logarithms of loudness, about from -1 to 1.
torch::Tensor Classifier::as_image(const torch::Tensor& x) const {
  if (!by_spectrum_) return is_sound_ ? x.unsqueeze(2) : x;
  constexpr double kQuiet = 1e-3, kSpread = 4;
  const torch::Tensor power = power_spectrum(x.type_as(basis_), basis_, kSpectralHop);
  const torch::Tensor loudness = (torch::matmul(power, bands_) + kQuiet).log() / kSpread;
  return loudness.transpose(2, 3).type_as(x);
}

torch::Tensor Classifier::features(const torch::Tensor& x) {
  torch::Tensor h = with_places(as_image(x));
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    const torch::Tensor next = torch::silu(norms_[i](convolutions_[i](h)));
    h = next.sizes() == h.sizes() ? h + next : next;
  }
  return hidden_(h.mean({2, 3}));
}

torch::Tensor Classifier::forward(const torch::Tensor& x) {
  return logits_(torch::silu(features(x)));
}

}  // namespace bespoke
