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
  // Of captions instead of classes: numbers 0 ... words, 0 for no word, so many of them.
  int64_t words = 0, tokens = 0;
  // Of a network that fills gaps: channels of its input behind those of x, which are what is known
  // of the sample, zero in the gap, and one channel that is 1 where it is known.
  int64_t context = 0;

  bool is_sound() const { return sample.size() == 2; }
  bool has_captions() const { return words > 0; }
  bool fills_gaps() const { return context > 0; }
  // What stands for no condition, in every number of it.
  int64_t null() const { return has_captions() ? 0 : classes; }
};

// A network that is trained here: x [batch, *sample], t [batch], y int64 -> as x, where y is
// [batch] classes or [batch, tokens] of captions. t is given as float32 or wider whatever the
// precision of the weights, which x has too. The x of a network that fills gaps has the context's
// channels too, and its answer has not.
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
