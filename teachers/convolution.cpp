#include "teachers/convolution.h"

namespace bespoke {

torch::nn::Conv2d convolution(Window window, int64_t in, int64_t out, int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, {window.rows ? 3 : 1, 3})
                               .padding({window.rows ? 1 : 0, 1})
                               .stride({window.rows ? stride : 1, stride}));
}

torch::nn::GroupNorm group_norm(int64_t channels) {
  int64_t groups = 32;
  while (channels % groups != 0) groups /= 2;
  return torch::nn::GroupNorm(groups, channels);
}

}  // namespace bespoke
