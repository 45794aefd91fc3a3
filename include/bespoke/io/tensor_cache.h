#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bespoke/io/safetensors.h"

namespace bespoke {

// The SHA-256 of a tensor's type, shape and bytes, to name it in a key.
std::string tensor_sha256(const torch::Tensor& tensor);

// A folder of tensors that take long to compute. Each set has a key, a JSON value that names all
// that decides what they are; the file is named after the key's SHA-256, and keeps the key itself
// and a checksum. Any file may be deleted at any time.
class TensorCache {
 public:
  // A cache that keeps nothing and finds nothing.
  TensorCache() = default;
  // A cache in a folder, which is made; throws where it cannot be.
  explicit TensorCache(const std::filesystem::path& folder);

  bool is_on() const { return !folder_.empty(); }

  using Tensors = std::map<std::string, torch::Tensor>;
  // Reads a set; none where there is no such file, or it is broken, altered, or of another key.
  std::optional<Tensors> find(const nlohmann::json& key) const;
  // Writes a set in the place of what is there, whole or not at all. Throws where it cannot.
  void keep(const nlohmann::json& key, const Tensors& tensors) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;

  std::filesystem::path folder_;  // empty: off
};

}  // namespace bespoke
