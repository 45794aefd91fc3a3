#include "bespoke/tensor/errors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

TEST(Errors, AreThoseOfEachSample) {
  const auto a = torch::zeros({2, 3, 4}), b = torch::zeros({2, 3, 4});
  b[0].fill_(0.2);
  b[1].fill_(0.02);
  const auto errors = mean_squared_errors(a, b);
  EXPECT_NEAR(errors[0], 0.04, 1e-8);
  EXPECT_NEAR(errors[1], 0.0004, 1e-9);
  EXPECT_NEAR(mean_psnr(a, b), (20 + 40) / 2., 1e-4);  // of decibels, not of errors
  EXPECT_THROW(mean_squared_errors(a, torch::zeros({2, 3, 5})), Error);
}

}  // namespace
}  // namespace bespoke
