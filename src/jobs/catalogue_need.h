#pragma once

#include <functional>
#include <vector>

#include "bespoke/report/report.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

// The mean PSNR of each solver on so many samples; NaN where it diverges.
using SolversMeasured =
    std::function<std::vector<double>(const std::vector<NamedSolver>& solvers, int64_t samples)>;

// A solver that the catalogue is to come as near as, and how to find out.
struct CatalogueSearch {
  NsSolver solver;
  FieldDescription field;
  double data_deviation = 1;  // root mean square of the model's own samples
  int64_t samples = 4;        // that figures are of
  int first = 8, most = 40;   // evaluations to try: as many as the solver is worth, and the end
  SolversMeasured measured;
};

// How many evaluations the best of the catalogue on its best grid needs, chosen anew at each number
// of evaluations. The solver is measured on the same samples. At the first number of evaluations
// every method is tried on two grids; those that do best are then tried on every grid at each
// number, on one sample, and the best of these on all samples.
CatalogueNeed catalogue_need(const CatalogueSearch& search);

}  // namespace bespoke
