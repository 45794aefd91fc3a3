#pragma once

#include <torch/types.h>

#include <string>

namespace bespoke {

// One tensor from a file other tools wrote: "FILE.npy", "FILE.safetensors" (the tensor called
// `name`, or the only one there is) or "FILE.safetensors:KEY".
torch::Tensor read_tensor_file(const std::string& text, const std::string& name);

// Whether the text names such a file.
bool is_tensor_file(const std::string& text);

}  // namespace bespoke
