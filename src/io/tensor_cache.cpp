#include "bespoke/io/tensor_cache.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/sha256.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kKey[] = "bespoke_cache_key";
constexpr char kChecksum[] = "sha256";

std::string checksum(const TensorCache::Tensors& tensors) {
  std::string digests;
  for (const auto& [name, tensor] : tensors) digests += name + " " + tensor_sha256(tensor) + "\n";
  return sha256(digests);
}

// Names in it may be of any encoding.
std::string key_text(const nlohmann::json& key) { return json_text(key); }

bool says(const TensorFile& file, const std::string& entry, const std::string& value) {
  const auto item = file.metadata.find(entry);
  return item != file.metadata.end() && item->second == value;
}

}  // namespace

std::string tensor_sha256(const torch::Tensor& tensor) {
  const torch::Tensor plain = tensor.detach().to(torch::kCPU).contiguous();
  std::string content =
      fmt::format("{} {} ", torch::toString(plain.scalar_type()), fmt::join(plain.sizes(), "x"));
  content.append(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
  return sha256(content);
}

TensorCache::TensorCache(const std::filesystem::path& folder) : folder_(folder) {
  make_folders(folder);
  remove_abandoned(folder);  // what was left may be of a file that is there now
}

std::filesystem::path TensorCache::file_of(const std::string& key) const {
  return folder_ / (sha256(key) + ".safetensors");
}

std::optional<TensorCache::Tensors> TensorCache::find(const nlohmann::json& key) const {
  const std::string text = key_text(key);
  if (!is_on() || !is_file(file_of(text))) return {};
  try {
    const TensorFile file = read_safetensors(file_of(text));
    if (!says(file, kKey, text) || !says(file, kChecksum, checksum(file.tensors))) return {};
    return file.tensors;
  } catch (const Error& error) {
    // What cannot be read is as good as absent: it is made anew and replaced.
    if (error.kind() != ErrorKind::bad_input) throw;
    return {};
  }
}

void TensorCache::keep(const nlohmann::json& key, const Tensors& tensors) const {
  if (!is_on()) return;
  const std::string text = key_text(key);
  const auto path = file_of(text);
  // Written to, a pipe would wait for a reader, and a folder refuses: such a place keeps nothing.
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    return;
  }
  write_safetensors(path, {tensors, {{kKey, text}, {kChecksum, checksum(tensors)}}});
}

}  // namespace bespoke
