#include "bespoke/measure/features.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"

namespace bespoke {

using namespace detail;

namespace {

// [batch, d, 1, 1], which pooling leaves, as [batch, d].
torch::Tensor without_trailing_ones(const torch::Tensor& features) {
  for (int64_t k = 2; k < features.dim(); ++k) {
    if (features.size(k) != 1) return features;
  }
  return features.dim() > 2 ? features.flatten(1) : features;
}

}  // namespace

FeatureExtractor::FeatureExtractor(const std::filesystem::path& file, const FeatureOptions& options)
    : file_(file.string()),
      options_(options),
      network_(load_network(file, {options.device, torch::kFloat})) {
  const bool ordered = !options.range || options.range->first < options.range->second;
  if (options.size < 0 || !ordered || !(options.least < options.most)) {
    throw usage_error("an extractor's size must not be negative, and its ranges must increase");
  }
}

torch::Tensor FeatureExtractor::prepare(const torch::Tensor& samples) const {
  torch::Tensor x = samples.to(options_.device, torch::kFloat);
  if (options_.range) {
    const auto [least, most] = *options_.range;
    x = (x - options_.least) * ((most - least) / (options_.most - options_.least)) + least;
    x = x.clamp(least, most);
  }
  if (options_.size == 0) return x;
  if (x.dim() != 4) {
    throw bad_input("samples of shape {} are no images and cannot be resized for {}",
                    fmt::join(samples.sizes().slice(1), "x"), file_);
  }
  return torch::_upsample_bilinear2d_aa(x, {options_.size, options_.size}, false);
}

torch::Tensor FeatureExtractor::unchecked(const torch::Tensor& input) const {
  const torch::NoGradGuard no_grad;
  const torch::Tensor output = call_network(*network_, input);
  torch::Tensor features = without_trailing_ones(output);
  if (features.dim() != 2 || !features.is_floating_point() || features.size(1) == 0) {
    throw bad_input(
        "{} returned a tensor of shape {} and type {} for an input of shape {}, expected features "
        "[batch, d] or [batch, d, 1, 1] of a floating type",
        file_, fmt::join(output.sizes(), "x"), torch::toString(output.scalar_type()),
        fmt::join(input.sizes(), "x"));
  }
  return features;
}

torch::Tensor FeatureExtractor::operator()(const torch::Tensor& samples) const {
  const torch::NoGradGuard no_grad;
  const torch::Tensor input = prepare(samples);
  torch::Tensor features = unchecked(input);
  if (!torch::isfinite(features).all().item<bool>()) {
    throw Error(ErrorKind::diverged,
                fmt::format("{} returned NaN or infinity among the features of samples in [{:.3g}, "
                            "{:.3g}]; does it expect another range of values?",
                            file_, input.min().item<double>(), input.max().item<double>()));
  }
  return features;
}

int64_t FeatureExtractor::dimension(const std::vector<int64_t>& sample_shape) const {
  // Two samples: with one, a module that loses the batch could pass unnoticed.
  std::vector<int64_t> shape = {2};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  // Their numbers may be anything: a grey sample has no direction that could be normalised.
  return unchecked(prepare(torch::full(shape, (options_.least + options_.most) / 2))).size(1);
}

torch::Tensor features_of_sound(const FeatureFunction& features, const torch::Tensor& samples) {
  try {
    return features(samples);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    throw bad_input("{}", error.what());
  }
}

FeatureStatistics feature_statistics(const FeatureFunction& features, const torch::Tensor& samples,
                                     int64_t batch,
                                     const std::function<void(double)>& on_progress) {
  FeatureAccumulator accumulator;
  for_each_batch(samples.size(0), batch, on_progress,
                 [&](int64_t begin, int64_t end, const auto& report) {
                   accumulator.add(features_of_sound(features, samples.slice(0, begin, end)));
                   report(1.0);
                 });
  return accumulator.statistics();
}

}  // namespace bespoke
