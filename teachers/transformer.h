#pragma once

#include <cstdint>

#include "teachers/network.h"

namespace bespoke {

struct TransformerOptions {
  int64_t patch = 4;  // pixels on a side, or samples of a sound
  int64_t width = 160;
  int64_t depth = 6;
  int64_t heads = 5;
  double mlp_ratio = 3;
};

// A diffusion transformer over patches, with adaptive layer norms that begin as the identity
// (Peebles & Xie, "Scalable Diffusion Models with Transformers"). It adds its input, scaled by a
// learned function of time and class, to what it returns, so that a small width need not carry all
// of the noise through every block. The words of a caption are tokens beside the patches, which
// attend to them. One that fills gaps sees what is known beside x in its patches.
TeacherPtr make_transformer(const NetworkShape& shape, const TransformerOptions& options);

}  // namespace bespoke
