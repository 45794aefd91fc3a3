#pragma once

#include <cstdint>
#include <vector>

#include "teachers/network.h"

namespace bespoke {

struct UNetOptions {
  int64_t channels = 64;  // at full resolution
  std::vector<int64_t> multipliers = {1, 2,
                                      2};  // of it, a level each; the resolution halves between
  int64_t blocks = 2;                      // residual blocks a level
  std::vector<int64_t> attention = {16};   // widths (sounds: lengths) with self-attention
};

// The U-Net of diffusion models (Dhariwal & Nichol): residual blocks with group norms that time and
// class scale and shift, self-attention at chosen resolutions, and skips from the way down to the
// way up. A sound is an image one pixel high.
TeacherPtr make_unet(const NetworkShape& shape, const UNetOptions& options);

}  // namespace bespoke
