// The same samples on the GPU. Skipped, saying so, where there is none.

#include <gtest/gtest.h>

#include "bespoke/model/fields.h"
#include "bespoke/sample/reference.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/combine.h"
#include "support.h"

namespace bespoke {
namespace {

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device here";
  }
};

TEST_F(Cuda, CombineAgreesWithTheCpu) {
  std::vector<torch::Tensor> terms, on_device;
  for (uint64_t j = 0; j < 4; ++j) {
    terms.push_back(normal_noise(j, 0, 3, {500}));
    on_device.push_back(terms.back().to(torch::kCUDA));
  }
  torch::Tensor out = torch::empty_like(terms[0]), device_out = torch::empty_like(on_device[0]);
  EXPECT_TRUE(combine(out, terms, {1, -2, 0.5, 3}));
  EXPECT_TRUE(combine(device_out, on_device, {1, -2, 0.5, 3}));
  EXPECT_LT(testing::relative_error(device_out.cpu(), out), 1e-14);
  on_device[2][1][7] = std::nan("");
  EXPECT_FALSE(combine(device_out, on_device, {1, -2, 0.5, 3}));
}

TEST_F(Cuda, SamplesAndReferenceAgreeWithTheCpu) {
  for (const auto prediction : {Prediction::velocity, Prediction::noise, Prediction::data}) {
    const ModelPtr model =
        mixture_model(testing::small_mixture(6, 4, 2), vp_schedule(), prediction);
    const auto x0 = testing::starting_noise(*model, 7);
    const Conditions labels = {{"class", torch::arange(7, torch::kLong) % 3}};
    const VelocityField field(model);
    const NsSolver solver = make_solver("dpm++2m", {8, vp_schedule(), ""});
    EXPECT_LT(testing::relative_error(sample(solver, field, x0.to(torch::kCUDA), labels).cpu(),
                                      sample(solver, field, x0, labels)),
              1e-11);
    ReferenceOptions options;
    options.tolerances = {1e-8, 1e-8};
    const auto here = reference(model, x0, labels, options);
    const auto there = reference(model, x0.to(torch::kCUDA), labels, options);
    EXPECT_LT(testing::relative_error(there.x.cpu(), here.x), 1e-7);
    EXPECT_TRUE(torch::equal(there.evaluations, here.evaluations));
  }
}

}  // namespace
}  // namespace bespoke
