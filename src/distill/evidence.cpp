#include "evidence.h"

#include "bespoke/distill/coefficients.h"

namespace bespoke::detail {

size_t coefficient_index(const Change& change, const SolverShape& shape) {
  const auto step = static_cast<size_t>(change.step);
  switch (change.what) {
    case Change::What::start_scale:
      return start_scale_index(shape);
    case Change::What::time:
      return step;
    default:
      return step_coefficient_index(shape, step, static_cast<size_t>(change.column));
  }
}

std::vector<size_t> column_indices(const std::vector<Change>& changes, const SolverShape& shape) {
  const size_t last = static_cast<size_t>(shape.nfe) - 1;
  std::vector<size_t> indices;
  for (const Change& change : changes) indices.push_back(coefficient_index(change, shape));
  for (size_t column = 0; column < shape.columns(last); ++column) {
    indices.push_back(step_coefficient_index(shape, last, column));
  }
  return indices;
}

void add(LinearModelSlope& sum, const LinearModelSlope& slope, const std::vector<size_t>& indices,
         double weight) {
  std::vector<double> shares(sum.gradient.size(), 0);
  for (const size_t index : indices) shares[index] += 1;
  for (size_t i = 0; i < indices.size(); ++i) {
    const double share = weight / shares[indices[i]];
    sum.gradient[indices[i]] += share * slope.gradient[i];
    for (size_t j = 0; j < indices.size(); ++j) {
      sum.curvature(indices[i], indices[j]) += share / shares[indices[j]] * slope.curvature(i, j);
    }
  }
}

}  // namespace bespoke::detail
