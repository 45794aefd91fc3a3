#include "bespoke/tensor/transfer.h"

#include <torch/torch.h>

#include "bespoke/tensor/recording.h"

namespace bespoke {

torch::Tensor copied_to(const torch::Tensor& values, torch::Device device, torch::ScalarType type) {
  const bool far = values.device().is_cpu() && !device.is_cpu();
  if (!far || values.requires_grad() || values.numel() == 0) return values.to(device, type);
  const bool uniform = values.dim() == 1 && (values.size(0) == 1 || values.stride(0) == 0);
  if (uniform) {
    return torch::full(values.sizes(), values[0].item(),
                       torch::TensorOptions().device(device).dtype(type));
  }
  refuse_while_recording("numbers of its own are sent to the device in every call");
  // From memory that the device can read by itself; LibTorch keeps it until the device has.
  return values.to(type).pin_memory().to(device, type, /*non_blocking=*/true);
}

torch::Tensor rows_of(const torch::Tensor& tensor, const std::vector<int64_t>& positions) {
  return tensor.index_select(
      0, copied_to(torch::tensor(positions, torch::kLong), tensor.device(), torch::kLong));
}

}  // namespace bespoke
