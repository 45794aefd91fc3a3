#pragma once

#include <cstddef>
#include <vector>

namespace bespoke {

// A small dense matrix of doubles, by rows. Its sums are plain loops in a fixed order, so results
// do not depend on a linear algebra library or its threads.
struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(size_t rows, size_t columns) : rows(rows), columns(columns), values(rows * columns, 0) {}

  double& operator()(size_t i, size_t j) { return values[i * columns + j]; }
  double operator()(size_t i, size_t j) const { return values[i * columns + j]; }
};

// Computes matrix^T vector.
std::vector<double> transposed_product(const Matrix& matrix, const std::vector<double>& vector);

// Computes outer^T inner outer, for a symmetric `inner`; exactly symmetric.
Matrix congruence(const Matrix& inner, const Matrix& outer);

// Computes <vector, matrix vector>.
double quadratic_form(const Matrix& matrix, const std::vector<double>& vector);

// Solves matrix x = right for a symmetric positive definite matrix by Cholesky's factorisation.
// Empty if the matrix is not positive definite or not finite.
std::vector<double> solve_positive(Matrix matrix, std::vector<double> right);

}  // namespace bespoke
