#include "bespoke/tensor/combine.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support.h"

namespace bespoke {
namespace {

// More than one block, and not a multiple of it.
constexpr int64_t kRow = 3001;

std::vector<torch::Tensor> random_terms(int count, int64_t batch) {
  std::vector<torch::Tensor> terms;
  for (int j = 0; j < count; ++j) {
    terms.push_back(normal_noise(static_cast<uint64_t>(j), 0, batch, {kRow}));
  }
  return terms;
}

TEST(Combine, IsTheSumOfScaledTerms) {
  const auto terms = random_terms(5, 3);
  const std::vector<double> c = {0.5, -2, 3, 0.25, 1e-3};
  torch::Tensor expected = torch::zeros_like(terms[0]);
  for (size_t j = 0; j < c.size(); ++j) expected += c[j] * terms[j];
  torch::Tensor out = torch::empty_like(expected);
  EXPECT_TRUE(combine(out, terms, c));
  EXPECT_LT(testing::relative_error(out, expected), 1e-15);
}

TEST(Combine, TakesEveryFloatingTypeAndSumsInDouble) {
  // 1 + 1e-4 - 1 would lose most digits in float32 sums; half inputs are exact here.
  std::vector<torch::Tensor> terms = {torch::full({2, kRow}, 4096.0, torch::kHalf),
                                      torch::full({2, kRow}, 0.5, torch::kBFloat16),
                                      torch::full({2, kRow}, 4096.0, torch::kFloat)};
  torch::Tensor out = torch::empty({2, kRow}, torch::kFloat);
  combine(out, terms, {4096, 1e-3, -4096});
  EXPECT_NEAR(out.min().item<double>(), 0.5e-3, 4e-9);
  EXPECT_NEAR(out.max().item<double>(), 0.5e-3, 4e-9);
}

TEST(Combine, OutMayBeATerm) {
  auto terms = random_terms(2, 2);
  const torch::Tensor expected = terms[0] + 2 * terms[1];
  combine(terms[0], terms, {1, 2});
  EXPECT_TRUE(torch::equal(terms[0], expected));
}

TEST(Combine, SaysWhenTheResultIsNotFinite) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    auto terms = random_terms(3, 2);
    terms[1][1][kRow - 1] = bad;
    torch::Tensor out = torch::empty_like(terms[0]);
    EXPECT_FALSE(combine(out, terms, {1, 1, 1}));
    terms[1][1][kRow - 1] = 0;
    EXPECT_TRUE(combine(out, terms, {1, 1, 1}));
  }
  // Too large for float32 although every term is finite.
  torch::Tensor narrow = torch::empty({1, 4}, torch::kFloat);
  EXPECT_FALSE(combine(narrow, {torch::full({1, 4}, 1e30, torch::kFloat)}, {1e30}));
}

TEST(Combine, PerSampleCoefficientsActOnTheirOwnRows) {
  const auto terms = random_terms(2, 3);
  torch::Tensor out = torch::empty_like(terms[0]);
  combine_per_sample(out, terms, {{1, 2, 3}, {0, -1, 5}});
  for (int64_t row = 0; row < 3; ++row) {
    const double c0[] = {1, 2, 3}, c1[] = {0, -1, 5};
    const auto expected = c0[row] * terms[0][row] + c1[row] * terms[1][row];
    EXPECT_LT(testing::relative_error(out[row], expected), 1e-15);
  }
}

TEST(Combine, ScaledNormsMatchTheirDefinition) {
  const auto terms = random_terms(2, 4);
  const auto left = normal_noise(8, 0, 4, {kRow}), right = normal_noise(9, 0, 4, {kRow});
  const auto norms = scaled_norms(terms, {{1, 2, 3, 4}, {-1, 0, 1, 2}}, left, right, 1e-3, 1e-2);
  for (int64_t row = 0; row < 4; ++row) {
    const auto sum = (row + 1.0) * terms[0][row] + (row - 1.0) * terms[1][row];
    const auto scale = 1e-2 + 1e-3 * torch::maximum(left[row].abs(), right[row].abs());
    const double expected = (sum / scale).pow(2).mean().sqrt().item<double>();
    EXPECT_NEAR(norms[static_cast<size_t>(row)] / expected, 1, 1e-12);
  }
}

TEST(Combine, BitsDoNotDependOnThreadsOrBatch) {
  const auto terms = random_terms(6, 7);
  const std::vector<double> c = {0.1, -0.7, 1.3, 0.01, 5, -2};
  const int threads = at::get_num_threads();
  torch::Tensor one = torch::empty_like(terms[0]), many = torch::empty_like(terms[0]);
  at::set_num_threads(1);
  combine(one, terms, c);
  at::set_num_threads(2);
  combine(many, terms, c);
  at::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(one, many));
  std::vector<torch::Tensor> part;
  for (const auto& term : terms) part.push_back(term.slice(0, 3, 4));
  torch::Tensor alone = torch::empty_like(part[0]);
  combine(alone, part, c);
  EXPECT_TRUE(torch::equal(alone[0], many[3]));
}

}  // namespace
}  // namespace bespoke
