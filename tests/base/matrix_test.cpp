#include "bespoke/base/matrix.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bespoke {
namespace {

Matrix matrix_of(size_t rows, size_t columns, std::vector<double> values) {
  Matrix matrix(rows, columns);
  matrix.values = std::move(values);
  return matrix;
}

TEST(Matrix, ProductsMatchHandComputation) {
  const Matrix m = matrix_of(2, 3, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(transposed_product(m, {1, -1}), (std::vector<double>{-3, -3, -3}));
  const Matrix inner = matrix_of(2, 2, {2, 1, 1, 3});
  // Columns (1,4), (2,5), (3,6) through <v, inner w>.
  const Matrix c = congruence(inner, m);
  EXPECT_EQ(c(0, 0), 2 + 8 + 48);
  EXPECT_EQ(c(0, 2), c(2, 0));
  EXPECT_EQ(c(0, 2), 1 * (2 * 3 + 6) + 4 * (3 + 3 * 6));
  EXPECT_EQ(quadratic_form(inner, {1, 4}), c(0, 0));
}

TEST(Matrix, SolvesPositiveDefiniteSystems) {
  const Matrix m = matrix_of(3, 3, {4, 2, 0.5, 2, 5, 1, 0.5, 1, 3});
  const auto x = solve_positive(m, {4 - 4 + 1, 2 - 10 + 2, 0.5 - 2 + 6});
  ASSERT_EQ(x.size(), 3u);
  EXPECT_NEAR(x[0], 1, 1e-14);
  EXPECT_NEAR(x[1], -2, 1e-14);
  EXPECT_NEAR(x[2], 2, 1e-14);
}

TEST(Matrix, RefusesIndefiniteAndInfiniteSystems) {
  EXPECT_TRUE(solve_positive(matrix_of(2, 2, {1, 2, 2, 1}), {1, 1}).empty());
  EXPECT_TRUE(solve_positive(matrix_of(1, 1, {std::nan("")}), {1}).empty());
}

}  // namespace
}  // namespace bespoke
