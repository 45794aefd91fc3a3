#include "teachers/weights.h"

#include <algorithm>
#include <cmath>

namespace bespoke {

FlatWeights::FlatWeights(torch::nn::Module& network, torch::Device device,
                         torch::ScalarType dtype) {
  network.to(device);
  values = copy_weights(network).to(device, dtype);
  gradients = torch::zeros_like(values);
  int64_t at = 0;
  for (auto& parameter : network.parameters()) {
    const int64_t count = parameter.numel();
    parameter.set_data(values.narrow(0, at, count).view(parameter.sizes()));
    parameter.mutable_grad() = gradients.narrow(0, at, count).view(parameter.sizes());
    at += count;
  }
}

torch::Tensor copy_weights(const torch::nn::Module& network) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parts;
  for (const auto& parameter : network.parameters()) {
    parts.push_back(parameter.detach().reshape({-1}).to(torch::kFloat));
  }
  return torch::cat(parts);
}

void set_weights(torch::nn::Module& network, const torch::Tensor& values) {
  torch::NoGradGuard no_grad;
  int64_t at = 0;
  for (auto& parameter : network.parameters()) {
    parameter.copy_(values.narrow(0, at, parameter.numel()).view(parameter.sizes()));
    at += parameter.numel();
  }
}

AdamWState begin_adamw(const torch::Tensor& weights) {
  return {weights.clone(), weights.clone(), torch::zeros_like(weights), torch::zeros_like(weights)};
}

void adamw_step(AdamWState& state, const torch::Tensor& gradient, const AdamWOptions& options,
                double factor) {
  torch::NoGradGuard no_grad;
  constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-8;
  const auto step = static_cast<double>(++state.step);
  const double rate = options.learning_rate * factor;
  torch::Tensor g = gradient.to(torch::kFloat);
  g = g * (options.clip / (g.norm() + kEpsilon)).clamp_max(1);
  state.first_moment.lerp_(g, 1 - kBeta1);
  state.second_moment.mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
  const torch::Tensor scale =
      (state.second_moment / (1 - std::pow(kBeta2, step))).sqrt_().add_(kEpsilon);
  state.weights.mul_(1 - rate * options.weight_decay)
      .addcdiv_(state.first_moment, scale, -rate / (1 - std::pow(kBeta1, step)));
  state.average.lerp_(state.weights, 1 - std::min(options.ema, (1 + step) / (10 + step)));
}

}  // namespace bespoke
