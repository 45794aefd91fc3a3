#include "bespoke/base/matrix.h"

#include <cmath>

namespace bespoke {

std::vector<double> transposed_product(const Matrix& matrix, const std::vector<double>& vector) {
  std::vector<double> result(matrix.columns, 0);
  for (size_t i = 0; i < matrix.rows; ++i) {
    for (size_t j = 0; j < matrix.columns; ++j) result[j] += matrix(i, j) * vector[i];
  }
  return result;
}

Matrix congruence(const Matrix& inner, const Matrix& outer) {
  Matrix half(inner.rows, outer.columns);  // inner outer
  for (size_t i = 0; i < inner.rows; ++i) {
    for (size_t k = 0; k < outer.rows; ++k) {
      const double factor = inner(i, k);
      if (factor == 0) continue;
      for (size_t j = 0; j < outer.columns; ++j) half(i, j) += factor * outer(k, j);
    }
  }
  Matrix result(outer.columns, outer.columns);
  for (size_t k = 0; k < outer.rows; ++k) {
    for (size_t i = 0; i < outer.columns; ++i) {
      const double factor = outer(k, i);
      if (factor == 0) continue;
      for (size_t j = 0; j <= i; ++j) result(i, j) += factor * half(k, j);
    }
  }
  for (size_t i = 0; i < result.rows; ++i) {
    for (size_t j = 0; j < i; ++j) result(j, i) = result(i, j);
  }
  return result;
}

double quadratic_form(const Matrix& matrix, const std::vector<double>& vector) {
  double sum = 0;
  for (size_t i = 0; i < matrix.rows; ++i) {
    for (size_t j = 0; j < matrix.columns; ++j) sum += vector[i] * matrix(i, j) * vector[j];
  }
  return sum;
}

std::vector<double> solve_positive(Matrix matrix, std::vector<double> right) {
  const size_t n = matrix.rows;
  // The lower triangle becomes the factor L, row by row.
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = matrix(i, j);
      for (size_t k = 0; k < j; ++k) sum -= matrix(i, k) * matrix(j, k);
      if (i == j && !(sum > 0 && std::isfinite(sum))) return {};
      matrix(i, j) = i == j ? std::sqrt(sum) : sum / matrix(j, j);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) right[i] -= matrix(i, k) * right[k];
    right[i] /= matrix(i, i);
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) right[i] -= matrix(k, i) * right[k];
    right[i] /= matrix(i, i);
  }
  return right;
}

}  // namespace bespoke
