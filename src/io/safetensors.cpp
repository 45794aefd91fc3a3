#include "bespoke/io/safetensors.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "array_size.h"
#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"

namespace bespoke {

using namespace detail;

namespace {

using nlohmann::json;

constexpr char kMetadata[] = "__metadata__";

const std::vector<std::pair<std::string, torch::ScalarType>>& dtypes() {
  static const std::vector<std::pair<std::string, torch::ScalarType>> list = {
      {"F64", torch::kDouble},    {"F32", torch::kFloat}, {"F16", torch::kHalf},
      {"BF16", torch::kBFloat16}, {"I64", torch::kLong},  {"I32", torch::kInt},
      {"I16", torch::kShort},     {"I8", torch::kChar},   {"U8", torch::kByte},
      {"BOOL", torch::kBool}};
  return list;
}

std::string dtype_name(torch::ScalarType type) {
  for (const auto& [name, candidate] : dtypes()) {
    if (candidate == type) return name;
  }
  throw std::logic_error("safetensors has no such type");
}

torch::ScalarType dtype_of(const std::string& name, const std::string& source) {
  for (const auto& [candidate, type] : dtypes()) {
    if (candidate == name) return type;
  }
  throw bad_input("{}: tensor type '{}' is not supported", source, name);
}

std::vector<int64_t> sizes_from(const json& list, const std::string& where) {
  require(list.is_array(), where, "its shape and data_offsets must be lists");
  std::vector<int64_t> sizes;
  for (const auto& size : list) {
    sizes.push_back(whole_number(size, where, 0, std::numeric_limits<int64_t>::max()));
  }
  return sizes;
}

torch::Tensor read_tensor(const json& entry, const std::string& name, const char* data,
                          size_t data_size, const std::string& source) {
  const auto type = dtype_of(entry.at("dtype").get<std::string>(), source);
  const std::string where = fmt::format("{}: tensor '{}'", source, name);
  const auto shape = sizes_from(entry.at("shape"), where);
  const auto offsets = sizes_from(entry.at("data_offsets"), where);
  const bool inside = offsets.size() == 2 && offsets[0] <= offsets[1] &&
                      static_cast<uint64_t>(offsets[1]) <= data_size;
  const auto bytes = inside ? static_cast<uint64_t>(offsets[1] - offsets[0]) : 0;
  if (!inside || !is_array_of(shape, type, bytes)) {
    throw bad_input("{} does not fit the file; it is truncated or corrupt", where);
  }
  // A bool in memory must be 0 or 1; a file may hold any byte.
  const bool truth = type == torch::kBool;
  torch::Tensor tensor = torch::empty(shape, truth ? torch::kByte : type);
  if (bytes > 0) std::memcpy(tensor.data_ptr(), data + offsets[0], bytes);
  return truth ? tensor.ne(0) : tensor;
}

}  // namespace

std::string safetensors_bytes(const TensorFile& file) {
  json header = json::object();
  std::string data;
  for (const auto& [name, value] : file.tensors) {
    const torch::Tensor tensor = value.detach().to(torch::kCPU).contiguous();
    const size_t begin = data.size();
    data.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
    header[name] = {{"dtype", dtype_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {begin, data.size()}}};
  }
  if (!file.metadata.empty()) header[kMetadata] = file.metadata;
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts aligned
  const uint64_t length = text.size();
  std::string content(sizeof(length), '\0');
  std::memcpy(content.data(), &length, sizeof(length));
  return content + text + data;
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  write_file_atomically(path, safetensors_bytes(file));
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  return parse_safetensors(read_file(path), path.string());
}

TensorFile parse_safetensors(const std::string& content, const std::string& source) {
  uint64_t length = 0;
  const bool has_length = content.size() >= sizeof(length);
  if (has_length) std::memcpy(&length, content.data(), sizeof(length));
  if (!has_length || length > content.size() - sizeof(length)) {
    throw bad_input("{}: not a safetensors file, or truncated", source);
  }
  const char* data = content.data() + sizeof(length) + length;
  const size_t data_size = content.size() - sizeof(length) - length;
  TensorFile file;
  try {
    const json header =
        parse_json(content.substr(sizeof(length), length), source, "its header is broken");
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) {
        file.metadata = entry.get<std::map<std::string, std::string>>();
      } else {
        file.tensors[name] = read_tensor(entry, name, data, data_size, source);
      }
    }
  } catch (const json::exception& error) {
    throw bad_input("{}: broken safetensors header ({})", source, plain_words(error));
  }
  return file;
}

}  // namespace bespoke
