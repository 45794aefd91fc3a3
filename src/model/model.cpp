#include "bespoke/model/model.h"

#include <torch/torch.h>

#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/tensor/noise.h"
#include "bespoke/tensor/transfer.h"

namespace bespoke {

namespace {

[[noreturn]] void refuse_parts(const char* what) {
  throw bad_input("a solver with built-in guidance needs guidance, and this {} has none", what);
}

}  // namespace

GuidanceParts Model::predict_parts(const torch::Tensor&, const torch::Tensor&, const Conditions&,
                                   bool) const {
  refuse_parts("model");
}

GuidanceParts Field::velocity_parts(const torch::Tensor&, const torch::Tensor&, const Conditions&,
                                    bool) const {
  refuse_parts("field");
}

double safe_margin(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kDouble:
      return safe_margin(std::numeric_limits<double>::epsilon());
    case torch::kHalf:
      return safe_margin(0x1p-10);
    case torch::kBFloat16:
      return safe_margin(0x1p-7);
    default:
      return safe_margin(double{std::numeric_limits<float>::epsilon()});
  }
}

double safe_margin(const Model& model) { return safe_margin(model.dtype()); }

torch::ScalarType state_dtype(const Model& model) {
  return model.dtype() == torch::kDouble ? torch::kDouble : torch::kFloat;
}

torch::Tensor starting_noise(const Model& model, uint64_t seed, uint64_t first, int64_t count) {
  return model.schedule()->source_std() * normal_noise(seed, first, count, model.sample_shape());
}

Conditions select(const Conditions& conditions, const torch::Tensor& index) {
  Conditions selected;
  for (const auto& [name, values] : conditions) {
    selected[name] = values.index_select(0, copied_to(index, values.device(), torch::kLong));
  }
  return selected;
}

torch::Tensor repeat(const torch::Tensor& batch, int64_t times) {
  std::vector<int64_t> repeats(static_cast<size_t>(batch.dim()), 1);
  repeats.front() = times;
  return batch.repeat(repeats);
}

Conditions repeat(const Conditions& conditions, int64_t times) {
  Conditions repeated;
  for (const auto& [name, values] : conditions) repeated[name] = repeat(values, times);
  return repeated;
}

Conditions slice(const Conditions& conditions, int64_t begin, int64_t end) {
  Conditions sliced;
  for (const auto& [name, values] : conditions) sliced[name] = values.slice(0, begin, end);
  return sliced;
}

}  // namespace bespoke
