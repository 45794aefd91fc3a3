#pragma once

#include <vector>

#include "bespoke/base/matrix.h"
#include "bespoke/run/changed_runs.h"
#include "bespoke/run/linear_model.h"
#include "bespoke/solver/solver_shape.h"

namespace bespoke::detail {

// Where the columns of a linearisation lie among the coefficients: those of the changes, then those
// of the last step.
size_t coefficient_index(const Change& change, const SolverShape& shape);
std::vector<size_t> column_indices(const std::vector<Change>& changes, const SolverShape& shape);

// What some samples say about theta: residuals there, along columns taken there or before.
struct Evidence {
  LinearModel model;
  std::vector<size_t> indices;  // of its columns among the coefficients
  double weight;                // of one of its samples
};

// Adds a slope to one in all coefficients; columns of one number are averaged.
void add(LinearModelSlope& sum, const LinearModelSlope& slope, const std::vector<size_t>& indices,
         double weight);

}  // namespace bespoke::detail
