#include "runs/version.h"

#include <fmt/format.h>
#include <torch/version.h>

#include "bespoke/version.h"

namespace bespoke {

std::string version_text(const std::string& program) {
  return fmt::format("{} {} (LibTorch {}.{}.{})", program, BESPOKE_VERSION, TORCH_VERSION_MAJOR,
                     TORCH_VERSION_MINOR, TORCH_VERSION_PATCH);
}

}  // namespace bespoke
