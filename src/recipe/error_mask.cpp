#include "bespoke/recipe/error_mask.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/io/tensor_file.h"

namespace bespoke {

namespace {

// The condition that a mask is made of, [count, ...]; where none was given, its null.
torch::Tensor values_of(const ErrorMaskCard& mask, const ModelCard& card,
                        const Conditions& conditions) {
  const auto entry = conditions.find(mask.condition);
  if (entry != conditions.end()) return entry->second;
  const auto condition = std::find_if(card.conditions.begin(), card.conditions.end(),
                                      [&](const auto& one) { return one.name == mask.condition; });
  if (!condition->zero_null) {
    throw bad_input("the error mask is the condition '{}', which was not given; add --cond {}=FILE",
                    mask.condition, mask.condition);
  }
  std::vector<int64_t> shape = condition->shape;
  shape.insert(shape.begin(), 1);
  return torch::zeros(shape);
}

// Numbers [rows, ...] as [rows, shape ...], with axes that are left out at the end.
torch::Tensor fitted(const torch::Tensor& values, const std::vector<int64_t>& shape,
                     const std::string& source) {
  std::vector<int64_t> sizes = values.sizes().vec(), expected = shape;
  expected.insert(expected.begin(), values.size(0));
  sizes.resize(std::max(sizes.size(), expected.size()), 1);
  bool goes = sizes.size() == expected.size();
  for (size_t i = 0; goes && i < sizes.size(); ++i) goes = sizes[i] == 1 || sizes[i] == expected[i];
  if (!goes) {
    throw bad_input("{}: an error mask of shape [{}] does not go with samples of shape [{}]",
                    source, fmt::join(values.sizes().slice(1), ", "), fmt::join(shape, ", "));
  }
  return values.reshape(sizes).expand(expected);
}

// The mask of a part, or of samples of one tensor.
torch::Tensor mask_of_part(const ErrorMaskCard& mask, const std::vector<int64_t>& shape,
                           const ModelCard& card, const Conditions& conditions) {
  const bool is_file = mask.condition.empty();
  const std::string source = is_file ? mask.file.string() : "condition " + mask.condition;
  const torch::Tensor values = (is_file ? read_tensor_file(source, "error_mask").unsqueeze(0)
                                        : values_of(mask, card, conditions))
                                   .to(torch::kCPU, torch::kFloat);
  if (!values.eq(0).logical_or(values.eq(1)).all().item<bool>()) {
    throw bad_input("{}: an error mask holds zeros and ones alone, 1 where a number counts",
                    source);
  }
  return fitted(mask.inverted ? 1 - values : values, shape, source);
}

}  // namespace

torch::Tensor error_mask(const ModelCard& card, const Conditions& conditions) {
  if (card.error_masks.empty()) return {};
  if (card.parts.empty()) {
    return mask_of_part(card.error_masks.at(""), card.sample_shape, card, conditions).contiguous();
  }
  std::vector<torch::Tensor> masks;
  int64_t rows = 1;
  for (const SamplePart& part : card.parts) {
    const auto entry = card.error_masks.find(part.name);
    masks.push_back(entry == card.error_masks.end()
                        ? torch::ones({1, part.size()})
                        : mask_of_part(entry->second, part.shape, card, conditions).flatten(1));
    rows = std::max(rows, masks.back().size(0));
  }
  for (torch::Tensor& mask : masks) mask = mask.expand({rows, mask.size(1)});
  return torch::cat(masks, 1);
}

}  // namespace bespoke
