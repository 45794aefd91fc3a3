#include "dataset_file.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/sample_rate.h"
#include "bespoke/base/text.h"
#include "bespoke/io/dataset.h"
#include "bespoke/io/safetensors.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kSamples[] = "samples";
constexpr char kLabels[] = "labels";
constexpr char kClasses[] = "classes";
constexpr char kSampleRate[] = "sample_rate";

bool are_images(const torch::Tensor& samples) { return samples.scalar_type() == torch::kByte; }

void check_samples(const torch::Tensor& samples, int64_t sample_rate, const std::string& source) {
  const bool images =
      are_images(samples) && samples.dim() == 4 && (samples.size(1) == 1 || samples.size(1) == 3);
  const bool sounds = samples.scalar_type() == torch::kFloat && samples.dim() == 3;
  if ((!images && !sounds) || (samples.size(0) > 0 && samples.numel() == 0)) {
    throw bad_input(
        "{}: samples are uint8 [count, 1 or 3, height, width] or float32 [count, channels, "
        "length], "
        "found {} of shape {}",
        source, torch::toString(samples.scalar_type()), samples.sizes().vec());
  }
  if (sounds && !is_sample_rate(sample_rate)) {
    throw bad_input("{}: sounds need the metadata 'sample_rate', from {} to {} Hz, found {}",
                    source, kLeastSampleRate, kMostSampleRate, sample_rate);
  }
}

// Without names (`class_count` of 0) a label may be any number from 0 on.
void check_labels(const torch::Tensor& labels, int64_t count, size_t class_count,
                  const std::string& source) {
  const auto type = labels.scalar_type();
  const bool is_integer = type == torch::kLong || type == torch::kInt || type == torch::kByte;
  if (!is_integer || labels.dim() != 1 || labels.size(0) != count) {
    throw bad_input("{}: labels are int64 of shape [{}], one per sample, found {} of shape {}",
                    source, count, torch::toString(type), labels.sizes().vec());
  }
  if (count == 0) return;
  const int64_t least = labels.min().item<int64_t>();
  const int64_t most = labels.max().item<int64_t>();
  if (least < 0 || (class_count > 0 && most >= static_cast<int64_t>(class_count))) {
    throw bad_input("{}: labels count from 0 and each needs a class, found {} to {} and {} classes",
                    source, least, most, class_count);
  }
}

torch::Tensor tensor_called(const TensorFile& file, const char* name, const std::string& source) {
  const auto entry = file.tensors.find(name);
  if (entry == file.tensors.end()) {
    throw bad_input("{}: has no tensor '{}'; a dataset has 'samples' and 'labels'", source, name);
  }
  return entry->second;
}

std::vector<std::string> declared_classes(const TensorFile& file, const std::string& source) try {
  const auto entry = file.metadata.find(kClasses);
  if (entry == file.metadata.end()) return {};
  return try_parse_json(entry->second).get<std::vector<std::string>>();
} catch (const nlohmann::json::exception&) {
  throw bad_input("{}: the metadata 'classes' is not a JSON list of names", source);
}

int64_t declared_rate(const TensorFile& file, const std::string& source) try {
  const auto entry = file.metadata.find(kSampleRate);
  return entry == file.metadata.end() ? 0 : parse_integer(entry->second, kSampleRate);
} catch (const Error& error) {
  throw bad_input("{}: {}", source, error.what());
}

}  // namespace

SampleSource open_dataset_file(const std::filesystem::path& path) {
  const std::string source = path.string();
  const TensorFile file = read_safetensors(path);
  const torch::Tensor samples = tensor_called(file, kSamples, source);
  const torch::Tensor labels = tensor_called(file, kLabels, source);
  const int64_t rate = declared_rate(file, source);
  SampleSource result;
  result.classes = declared_classes(file, source);
  check_samples(samples, rate, source);
  check_labels(labels, samples.size(0), result.classes.size(), source);
  const Medium medium = are_images(samples) ? Medium::image : Medium::sound;
  const int sample_rate = medium == Medium::sound ? static_cast<int>(rate) : 0;
  const torch::Tensor places = labels.to(torch::kLong).contiguous();
  for (int64_t i = 0; i < samples.size(0); ++i) {
    const int64_t place = places.data_ptr<int64_t>()[i];
    result.entries.push_back({fmt::format("{}:{}[{}]", source, kSamples, i),
                              result.classes.empty() ? std::to_string(place)
                                                     : result.classes[static_cast<size_t>(place)],
                              medium, [samples, i, sample_rate] {
                                return SampleValues{samples[i], sample_rate};
                              }});
  }
  return result;
}

void write_dataset(const std::filesystem::path& path, const Dataset& dataset) {
  const std::string target = path.string();
  check_samples(dataset.samples, dataset.sample_rate, target);
  check_labels(dataset.labels, dataset.samples.size(0), dataset.classes.size(), target);
  TensorFile file;
  file.tensors = {{kSamples, dataset.samples}, {kLabels, dataset.labels.to(torch::kLong)}};
  file.metadata[kClasses] = json_text(nlohmann::json(dataset.classes));
  if (!are_images(dataset.samples)) {
    file.metadata[kSampleRate] = std::to_string(dataset.sample_rate);
  }
  write_safetensors(path, file);
}

}  // namespace bespoke
