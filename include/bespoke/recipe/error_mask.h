#pragma once

#include <torch/types.h>

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"

namespace bespoke {

// Which numbers of samples count in errors, as their model's card says: 1 where one does, 0 where
// not, [count, *sample_shape] where conditions say it and [1, *sample_shape] where files do, on the
// CPU; undefined where the card has no mask. `conditions` are those of the samples.
torch::Tensor error_mask(const ModelCard& card, const Conditions& conditions);

}  // namespace bespoke
