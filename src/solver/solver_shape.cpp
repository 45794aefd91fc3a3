#include "bespoke/solver/solver_shape.h"

#include <algorithm>
#include <numeric>

namespace bespoke {

bool SolverShape::is_guided(size_t step) const {
  return std::binary_search(guided.begin(), guided.end(), static_cast<int>(step));
}

size_t SolverShape::differences(size_t step) const {
  const auto end = std::upper_bound(guided.begin(), guided.end(), static_cast<int>(step));
  return static_cast<size_t>(end - guided.begin());
}

int SolverShape::calls_from(int step) const {
  const auto first = std::lower_bound(guided.begin(), guided.end(), step);
  return nfe - step + static_cast<int>(guided.end() - first);
}

SolverShape guided_first(int nfe, int guided) {
  std::vector<int> steps(static_cast<size_t>(guided));
  std::iota(steps.begin(), steps.end(), 0);
  return {nfe, steps};
}

bool operator==(const SolverShape& left, const SolverShape& right) {
  return left.nfe == right.nfe && left.guided == right.guided;
}

}  // namespace bespoke
