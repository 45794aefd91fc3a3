#include "bespoke/run/changed_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "bespoke/base/error.h"

namespace bespoke {

namespace {

constexpr double kLeastSize = 1e-30;  // to divide by

// Which column of a run, as columns() orders them, a coefficient multiplies.
size_t column_of(const Change& change, const SolverRun& run) {
  const auto step = static_cast<size_t>(change.step), column = static_cast<size_t>(change.column);
  return column <= step + 1 ? column : 1 + run.u.size() + column - (step + 2);
}

// Runs of a solver with one number changed in each, side by side: sample s of change c is row
// c * samples + s. Changes are in the order of the evaluations that see them first, so those under
// way are always the first rows. Only differences to the unchanged run are kept: they lose nothing
// to the rounding of the states.
class ChangedRuns {
 public:
  ChangedRuns(const ArrayField& field, const SolverRun& run, std::vector<Change> changes,
              int64_t most_rows)
      : field_(field),
        arrays_(field.arrays()),
        run_(run),
        solver_(run.solver),
        shape_(run.solver.shape()),
        changes_(std::move(changes)),
        most_rows_(most_rows),
        samples_(static_cast<int64_t>(run.samples.size())) {}

  // [changes * samples, ...]
  Array columns(Counts* counts) {
    begin();
    for (size_t k = first_of(0); k < solver_.a.size(); ++k) {
      join(k);
      evaluate(k, counts);
      step(k);
    }
    join(solver_.a.size());
    require_finite();
    std::vector<double> inverse;
    for (const double size : sizes_) inverse.push_back(1 / size);
    return arrays_.combine_per_sample({inverse}, {state_});
  }

 private:
  size_t first_of(size_t change) const {
    return static_cast<size_t>(changes_[change].first_evaluation());
  }

  // How many changes the evaluation sees.
  size_t under_way(size_t k) const {
    size_t count = 0;
    while (count < changes_.size() && first_of(count) <= k) ++count;
    return count;
  }

  Array rows(const Array& array, size_t begin, size_t end) const {
    return arrays_.rows(array, static_cast<int64_t>(begin) * samples_,
                        static_cast<int64_t>(end) * samples_);
  }

  // By how much each change changes its number, and how that moves the state at its first
  // evaluation: so many times a column.
  void begin() {
    const std::vector<Array> columns = run_.columns();
    const std::vector<double> of_columns = sizes_of(columns), of_states = sizes_of(run_.x);
    const auto rows = static_cast<size_t>(samples_);
    std::vector<Array> moved;
    std::vector<double> factors;
    for (const Change& change : changes_) {
      size_t column = 0;
      for (size_t s = 0; s < rows; ++s) {
        double size = change.size, factor = 0;
        if (change.what == Change::What::start_scale) {
          size *= solver_.start_scale;
          factor = change.size;
        } else if (change.what == Change::What::coefficient) {
          column = column_of(change, run_);
          const auto first = static_cast<size_t>(change.first_evaluation());
          size *= of_states[first * rows + s] / of_columns[column * rows + s];
          factor = size;
        }
        sizes_.push_back(size);
        factors.push_back(factor);
      }
      moved.push_back(arrays_.cast(columns[column], columns[0]));
    }
    moves_ = arrays_.combine_per_sample({factors}, {arrays_.concatenate(moved)});
    if (under_way(0) > 0) start_ = this->rows(moves_, 0, under_way(0));
  }

  // The root mean squares of samples, array after array.
  std::vector<double> sizes_of(const std::vector<Array>& all) const {
    std::vector<Array> same_type;
    for (const Array& array : all) same_type.push_back(arrays_.cast(array, all.front()));
    std::vector<double> sizes = arrays_.root_mean_squares(arrays_.concatenate(same_type));
    for (double& size : sizes) size = std::max(size, kLeastSize);
    return sizes;
  }

  // The changes that the evaluation sees first move the states from there on.
  void join(size_t k) {
    const size_t before = joined_;
    joined_ = under_way(k);
    if (joined_ == before) return;
    const Array fresh = rows(moves_, before, joined_);
    state_ = before == 0 ? fresh : arrays_.concatenate({state_, fresh});
  }

  // How what the field returns differs from what it did in the unchanged run.
  void evaluate(size_t k, Counts* counts) {
    const auto seen = static_cast<int64_t>(joined_);
    const Array x = arrays_.combine({1, 1}, {state_, arrays_.repeat(run_.x[k], seen)}, state_);
    std::vector<int64_t> samples;
    for (int64_t c = 0; c < seen; ++c) {
      samples.insert(samples.end(), run_.samples.begin(), run_.samples.end());
    }
    const Velocities velocities = evaluate_in_batches(
        field_, x, times(k), samples, question_at(shape_, k), most_rows_, samples_, counts);
    const auto change_of = [&](const Array& now, const Array& before) {
      return arrays_.combine({1, -1}, {now, arrays_.repeat(before, seen)}, state_);
    };
    slopes_.push_back(change_of(velocities.velocity, run_.u[k]));
    const bool differs = static_cast<bool>(velocities.difference);
    differences_.push_back(differs ? change_of(velocities.difference, run_.d[differences_before(k)])
                                   : Array());
  }

  // How many differences the evaluations before it have.
  size_t differences_before(size_t k) const { return k == 0 ? 0 : shape_.differences(k - 1); }

  std::vector<double> times(size_t k) const {
    std::vector<double> times;
    for (size_t c = 0; c < under_way(k); ++c) {
      const bool moved = changes_[c].what == Change::What::time && first_of(c) == k;
      times.insert(times.end(), static_cast<size_t>(samples_),
                   solver_.times[k] + (moved ? changes_[c].size : 0));
    }
    return times;
  }

  // Each evaluation changed the states of the rows that it saw, the first ones.
  void step(size_t k) {
    std::vector<Array> terms;
    std::vector<double> coefficients;
    const auto add = [&](const Array& term, double coefficient) {
      terms.push_back(term);
      coefficients.push_back(coefficient);
    };
    const size_t first = first_of(0);
    for (size_t j = first; j <= k; ++j) {
      add(slopes_[j - first], solver_.b[k][j]);
      if (!differences_[j - first]) continue;
      add(differences_[j - first], solver_.c[k][differences_before(j)]);
    }
    if (start_) add(start_, solver_.a[k]);
    state_ = arrays_.combine_first_rows(coefficients, terms);
  }

  // At the end, since a device is waited for: a slope that is not finite is part of all later
  // states.
  void require_finite() const {
    if (arrays_.is_finite(state_)) return;
    size_t bad = 0;
    while (bad + 1 < slopes_.size() && arrays_.is_finite(slopes_[bad])) ++bad;
    const size_t k = first_of(0) + bad;
    throw Error(ErrorKind::diverged,
                fmt::format("a run with one number changed a little is not finite after step {} of "
                            "{} (t = {})",
                            k + 1, solver_.nfe(), solver_.times[k]));
  }

  const ArrayField& field_;
  const Arrays& arrays_;
  const SolverRun& run_;
  const NsSolver& solver_;
  const SolverShape shape_;
  std::vector<Change> changes_;
  int64_t most_rows_, samples_;
  std::vector<double> sizes_;  // by row
  Array moves_;                // how each change moves the state at its first evaluation
  Array start_;                // of those that move x_0
  Array state_;                // of those under way
  size_t joined_ = 0;          // their number
  std::vector<Array> slopes_, differences_;  // by evaluation, from the first on
};

// The changes in the order of the evaluations that see them first, by their places.
std::vector<size_t> order_of(const std::vector<Change>& changes) {
  std::vector<size_t> order(changes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return changes[left].first_evaluation() < changes[right].first_evaluation();
  });
  return order;
}

}  // namespace

Array columns_of_end(const ArrayField& field, const SolverRun& run,
                     const std::vector<Change>& changes, int64_t most_rows, Counts* counts) {
  // Runs side by side take memory for every evaluation: that of so many batches.
  constexpr int64_t kBatches = 8;
  const Arrays& arrays = field.arrays();
  const auto samples = static_cast<int64_t>(run.samples.size());
  const auto most = static_cast<size_t>(std::max<int64_t>(1, kBatches * most_rows / samples));
  const std::vector<size_t> order = order_of(changes);
  std::vector<Array> parts;
  for (size_t begin = 0; begin < order.size(); begin += most) {
    std::vector<Change> together;
    for (size_t m = begin; m < std::min(order.size(), begin + most); ++m) {
      together.push_back(changes[order[m]]);
    }
    parts.push_back(ChangedRuns(field, run, together, most_rows).columns(counts));
  }
  for (const Array& column : run.columns()) parts.push_back(arrays.cast(column, run.x.front()));
  std::vector<int64_t> rows(static_cast<size_t>(samples) * (order.size() + run.columns().size()));
  std::iota(rows.begin(), rows.end(), 0);
  for (size_t m = 0; m < order.size(); ++m) {
    for (int64_t s = 0; s < samples; ++s) {
      rows[order[m] * static_cast<size_t>(samples) + static_cast<size_t>(s)] =
          static_cast<int64_t>(m) * samples + s;
    }
  }
  const Array side_by_side = arrays.concatenate(parts);
  return std::is_sorted(rows.begin(), rows.end()) ? side_by_side : arrays.take(side_by_side, rows);
}

}  // namespace bespoke
