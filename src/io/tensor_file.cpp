#include "bespoke/io/tensor_file.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/io/npy.h"
#include "bespoke/io/safetensors.h"

namespace bespoke {

namespace {

constexpr char kSafetensors[] = ".safetensors";
constexpr char kNpy[] = ".npy";

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() > suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

torch::Tensor pick(const TensorFile& file, const std::string& path, const std::string& key) {
  const auto tensor = file.tensors.find(key);
  if (tensor != file.tensors.end()) return tensor->second;
  std::vector<std::string> names;
  for (const auto& entry : file.tensors) names.push_back(entry.first);
  throw bad_input("{}: has no tensor named '{}'; it holds: {}", path, key, fmt::join(names, ", "));
}

}  // namespace

bool is_tensor_file(const std::string& text) {
  return ends_with(text, kNpy) || text.find(kSafetensors) != std::string::npos;
}

torch::Tensor read_tensor_file(const std::string& text, const std::string& name) {
  if (ends_with(text, kNpy)) return read_npy(text);
  const size_t suffix = text.rfind(std::string(kSafetensors) + ":");
  if (suffix != std::string::npos) {
    const size_t colon = text.find(':', suffix);
    const std::string path = text.substr(0, colon);
    return pick(read_safetensors(path), path, text.substr(colon + 1));
  }
  if (!ends_with(text, kSafetensors)) {
    throw bad_input("{}: not a .safetensors or .npy file", text);
  }
  const TensorFile file = read_safetensors(text);
  if (file.tensors.size() == 1) return file.tensors.begin()->second;
  return pick(file, text, name);
}

}  // namespace bespoke
