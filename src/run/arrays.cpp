#include "bespoke/run/arrays.h"

#include <algorithm>

namespace bespoke {

namespace {

// Adds up each state when its velocity is there.
class CombinedStates : public GrowingStates {
 public:
  CombinedStates(const Arrays& arrays, NsSolver solver, Array start)
      : arrays_(arrays), solver_(std::move(solver)), start_(std::move(start)) {}

  bool add(size_t step, const Array& velocity, const Array& difference) override {
    velocities_.push_back(velocity);
    if (difference) differences_.push_back(difference);
    state_ = arrays_.combine(step_coefficients(solver_, step),
                             columns_of(start_, velocities_, differences_), start_);
    if (arrays_.is_finite(state_)) return true;
    first_not_finite_ = std::min(first_not_finite_, step);
    return false;
  }

  Array state(size_t /*step*/) const override { return state_; }

  size_t first_not_finite() const override { return std::min(first_not_finite_, solver_.a.size()); }

 private:
  const Arrays& arrays_;
  NsSolver solver_;
  Array start_, state_;
  std::vector<Array> velocities_, differences_;
  size_t first_not_finite_ = SIZE_MAX;
};

}  // namespace

Array Arrays::combine_first_rows(const std::vector<double>& coefficients,
                                 const std::vector<Array>& terms) const {
  std::vector<int64_t> ends;
  for (const Array& term : terms) ends.push_back(count(term));
  std::vector<int64_t> edges = ends;
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::vector<Array> parts;
  int64_t begin = 0;
  for (const int64_t end : edges) {
    std::vector<double> factors;
    std::vector<Array> long_enough;
    for (size_t j = 0; j < terms.size(); ++j) {
      if (ends[j] < end) continue;
      factors.push_back(coefficients[j]);
      long_enough.push_back(rows(terms[j], begin, end));
    }
    if (end > begin) parts.push_back(combine(factors, long_enough, long_enough.front()));
    begin = end;
  }
  return parts.size() == 1 ? parts.front() : concatenate(parts);
}

std::unique_ptr<GrowingStates> Arrays::grow(const NsSolver& solver, const Array& start) const {
  return std::make_unique<CombinedStates>(*this, solver, start);
}

std::vector<Array> columns_of(const Array& start, const std::vector<Array>& velocities,
                              const std::vector<Array>& differences) {
  std::vector<Array> columns = {start};
  columns.insert(columns.end(), velocities.begin(), velocities.end());
  columns.insert(columns.end(), differences.begin(), differences.end());
  return columns;
}

}  // namespace bespoke
