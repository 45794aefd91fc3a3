#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"

namespace bespoke {

// What the card says stands for "no condition", with a batch of one.
torch::Tensor null_value(const ConditionCard& condition);

// --cond NAME=VALUE for `count` samples. A value is a list of classes, "3" or "0-9", or a tensor
// file, "FILE.npy" or "FILE.safetensors[:KEY]", with the batch in front or shared without it; where
// it has fewer entries than there are samples it repeats. Conditions not given are null where the
// card has a null tensor.
Conditions read_conditions(const std::vector<ConditionCard>& known,
                           const std::vector<std::string>& texts, int64_t count);

}  // namespace bespoke
