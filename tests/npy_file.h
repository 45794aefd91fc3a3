#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "bespoke/base/file.h"

namespace bespoke::testing {

// Writes a tensor as NumPy does: version 1, the data on a multiple of 64 bytes.
inline void write_npy(const std::filesystem::path& path, const torch::Tensor& tensor) {
  static const std::map<torch::ScalarType, std::string> types = {
      {torch::kDouble, "<f8"}, {torch::kFloat, "<f4"}, {torch::kHalf, "<f2"},
      {torch::kLong, "<i8"},   {torch::kInt, "<i4"},   {torch::kShort, "<i2"},
      {torch::kChar, "|i1"},   {torch::kByte, "|u1"},  {torch::kBool, "|b1"}};
  const torch::Tensor array = tensor.contiguous();
  std::string shape;
  for (const int64_t size : array.sizes()) shape += std::to_string(size) + ",";
  std::string header = "{'descr': '" + types.at(array.scalar_type()) +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr size_t kBefore = 10, kAlignment = 64;
  while ((kBefore + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  std::string content = std::string("\x93NUMPY\x01") + '\0';
  content += static_cast<char>(header.size() & 0xff);
  content += static_cast<char>(header.size() >> 8);
  content += header;
  if (array.nbytes() > 0) {
    content.append(static_cast<const char*>(array.data_ptr()), array.nbytes());
  }
  detail::write_file_atomically(path, content);
}

}  // namespace bespoke::testing
