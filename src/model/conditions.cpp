#include <torch/torch.h>

#include "bespoke/model/model.h"

namespace bespoke {

Conditions select(const Conditions& conditions, const torch::Tensor& index) {
  Conditions selected;
  for (const auto& [name, values] : conditions) {
    selected[name] = values.index_select(0, index.to(values.device()));
  }
  return selected;
}

Conditions slice(const Conditions& conditions, int64_t begin, int64_t end) {
  Conditions sliced;
  for (const auto& [name, values] : conditions) sliced[name] = values.slice(0, begin, end);
  return sliced;
}

}  // namespace bespoke
