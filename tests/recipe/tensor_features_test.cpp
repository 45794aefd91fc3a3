// Features of tensors, against those of the core.

#include "bespoke/recipe/tensor_features.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "bespoke/distill/plain_features.h"
#include "bespoke/tensor/noise.h"

namespace bespoke {
namespace {

TEST(PlainTensorFeatures, AreThoseOfTheCore) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 13, 10}, {1, 4, 4}, {10, 2, 16}, {2, 37}, {7}}) {
    const torch::Tensor samples = normal_noise(3, 0, 5, shape);
    const auto* values = samples.data_ptr<double>();
    const Matrix expected = PlainFeatures(shape)({values, values + samples.numel()});
    const torch::Tensor found =
        plain_tensor_features(samples.to(torch::kFloat)).to(torch::kDouble).contiguous();
    ASSERT_EQ(found.size(0), static_cast<int64_t>(expected.rows));
    ASSERT_EQ(found.size(1), static_cast<int64_t>(expected.columns));
    for (int64_t i = 0; i < found.numel(); ++i) {
      EXPECT_NEAR(found.data_ptr<double>()[i], expected.values[static_cast<size_t>(i)], 1e-4)
          << "number " << i << " of samples of " << shape.size() << " axes";
    }
  }
}

}  // namespace
}  // namespace bespoke
