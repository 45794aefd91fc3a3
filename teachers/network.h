#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace bespoke {

// What a network is made for.
struct NetworkShape {
  std::vector<int64_t> sample;  // [channels, height, width] of images, [channels, length] of sounds
  int64_t classes = 0;          // one more class, the last, stands for none

  bool is_sound() const { return sample.size() == 2; }
  int64_t null_class() const { return classes; }
};

// A network that is trained here: x [batch, *sample], t [batch], y [batch] int64 -> as x. t is
// given as float32 or wider whatever the precision of the weights, which x has too.
//
// A network is exported by recording one call, so forward may make no tensor out of nothing (it
// would stay on the device of the recording) and may not read the batch size (reshape with -1
// instead).
class TeacherNetwork : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& t,
                                const torch::Tensor& y) = 0;
};
using TeacherPtr = std::shared_ptr<TeacherNetwork>;

}  // namespace bespoke
