#include "bespoke/jobs/real_data.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/sha256.h"
#include "bespoke/io/dataset.h"
#include "bespoke/io/tensor_file.h"
#include "compare_cache.h"

namespace bespoke {

using namespace detail;

namespace {

// FILE of "FILE.safetensors:KEY", otherwise the path itself.
std::string without_key(const std::string& path) {
  const std::string suffix = ".safetensors";
  const size_t at = path.rfind(suffix + ":");
  return at == std::string::npos ? path : path.substr(0, at + suffix.size());
}

// Name, size and time of change: hashing every image of a folder would take as long as reading it.
nlohmann::json stamp_of(const std::string& folder, const std::string& name) {
  struct stat status = {};
  ::stat((folder + "/" + name).c_str(), &status);
  return {name, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

// Tells this data from any other, to name it in the cache.
nlohmann::json data_identity(const std::string& path) {
  const std::string file = without_key(path);
  if (is_file(file)) return {{"sha256", sha256(read_file(file))}, {"of", path}};
  std::vector<std::string> names = list_files(file);
  std::sort(names.begin(), names.end());
  nlohmann::json stamps = nlohmann::json::array();
  for (const auto& name : names) stamps.push_back(stamp_of(file, name));
  return {{"files", sha256(json_text(stamps))}, {"of", path}};
}

// Images or sounds, made to fit what is wanted.
torch::Tensor read_real_dataset(const std::string& option, const std::string& path,
                                const RealShape& wanted, const Execution& execution) {
  const auto& shape = wanted.shape;
  if (shape.size() != 2 && shape.size() != 3) {
    throw bad_input(
        "{}: the model's samples of shape {} are no images or sounds; give a .npy or .safetensors "
        "file with such samples",
        option, fmt::join(shape, "x"));
  }
  DatasetOptions options;
  options.channels = shape.front();
  // Images that are not square are not resized, and must be of the model's size.
  const bool resizable = shape.size() == 2 || shape[1] == shape[2];
  options.size = resizable ? shape.back() : 0;
  options.on_progress = [&](double done) { execution.report("reading the real data", done); };
  const Dataset dataset = read_dataset({path}, options);
  for (const auto& note : dataset.notes) execution.note(note);
  if (dataset.sample_rate != 0 && dataset.sample_rate != wanted.sample_rate) {
    throw bad_input("{}: sounds of {} Hz, the model's card says {} Hz", option, dataset.sample_rate,
                    wanted.sample_rate);
  }
  return dataset.samples;
}

}  // namespace

torch::Tensor read_real_samples(const std::string& option, const std::string& path,
                                const RealShape& wanted, const Execution& execution) {
  torch::Tensor samples = is_tensor_file(path) ? read_tensor_file(path, "samples")
                                               : read_real_dataset(option, path, wanted, execution);
  if (samples.dim() == 0 || samples.sizes().slice(1) != torch::IntArrayRef(wanted.shape)) {
    throw bad_input("{}: samples of shape {} cannot be compared with the model's, [count] x {}",
                    option, fmt::join(samples.sizes(), "x"), fmt::join(wanted.shape, "x"));
  }
  return samples;
}

torch::Tensor in_value_range(const torch::Tensor& samples, const ValueRange& range) {
  if (samples.scalar_type() != torch::kByte) return samples;
  return samples.to(torch::kFloat) * ((range.most - range.least) / 255) + range.least;
}

void check_real(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::exists(without_key(path), unknown)) {
    throw bad_input("--real {}: there is no such file or folder; check the path", path);
  }
}

FeatureStatistics real_statistics(const std::string& path, const OpenModel& open,
                                  const OpenFeatures& features, const TensorCache& cache,
                                  const Execution& execution) {
  const ValueRange range = value_range(open, open.decoder != nullptr);
  nlohmann::json source = {{"shape", seen_shape(open)}};
  if (cache.is_on()) source["data"] = data_identity(path);
  return cached_statistics(cache, features.identity, source, execution, [&] {
    const torch::Tensor samples = read_real_samples(
        "--real " + path, path, {seen_shape(open), open.card.sample_rate}, execution);
    require_enough_samples(samples.size(0), features.dimension, "--real " + path);
    return feature_statistics(
        [&](const torch::Tensor& x) { return (*features.extractor)(in_value_range(x, range)); },
        samples, execution.batch,
        [&](double done) { execution.report("features of the real data", done); });
  });
}

}  // namespace bespoke
