#pragma once

#include <torch/types.h>

#include <string>

namespace bespoke {

// Reads one tensor from a file that other tools wrote: "FILE.npy", "FILE.safetensors" (the tensor
// called `name`, or the only one there is) or "FILE.safetensors:KEY".
torch::Tensor read_tensor_file(const std::string& text, const std::string& name);

// Whether the text names such a file.
bool is_tensor_file(const std::string& text);

}  // namespace bespoke
