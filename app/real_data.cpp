#include "real_data.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "bespoke/core/error.h"
#include "bespoke/core/file.h"
#include "bespoke/core/progress.h"
#include "bespoke/core/sha256.h"
#include "bespoke/io/tensor_file.h"
#include "space_option.h"

namespace bespoke {

namespace {

// Tells this data from any other, to name it in the cache.
nlohmann::json data_identity(const std::string& path) {
  return {{"sha256", sha256(read_file(path))}};
}

torch::Tensor read_real_samples(const std::string& path, const std::vector<int64_t>& shape) {
  const torch::Tensor samples = read_tensor_file(path, "samples");
  if (samples.dim() == 0 || samples.sizes().slice(1) != torch::IntArrayRef(shape)) {
    throw bad_input(
        "{}: real samples of shape {} cannot be compared with the model's, [count] x {}", path,
        fmt::join(samples.sizes(), "x"), fmt::join(shape, "x"));
  }
  return samples;
}

// A batch in the model's value range.
torch::Tensor in_value_range(const torch::Tensor& samples, const ValueRange& range) {
  if (samples.scalar_type() != torch::kByte) return samples;
  return samples.to(torch::kFloat) * ((range.most - range.least) / 255) + range.least;
}

}  // namespace

void check_real(const std::string& path) {
  if (!is_tensor_file(path)) throw bad_input("--real {}: not a .safetensors or .npy file", path);
}

CachedStatistics real_statistics(const std::string& path, const OpenModel& open,
                                 const OpenFeatures& features, const TensorCache& cache,
                                 int64_t batch) {
  const auto shape = seen_shape(open);
  const ValueRange range = value_range(open, open.decoder != nullptr);
  nlohmann::json source = {{"shape", shape}};
  if (cache.is_on()) source["data"] = data_identity(path);
  return cached_statistics(cache, features.identity, source, [&] {
    const torch::Tensor samples = read_real_samples(path, shape);
    require_enough_samples(samples.size(0), features.dimension, "--real " + path);
    Progress progress("features of the real data");
    return feature_statistics(
        [&](const torch::Tensor& x) { return (*features.extractor)(in_value_range(x, range)); },
        samples, batch, [&](double done) { progress.update(done); });
  });
}

}  // namespace bespoke
