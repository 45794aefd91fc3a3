#include "changed_runs.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/transfer.h"
#include "tensor_columns.h"

namespace bespoke::detail {

namespace {

// Which column of a run, as columns_of orders them, a coefficient multiplies.
size_t column_of(const Change& change, const PlainRun& run) {
  const auto step = static_cast<size_t>(change.step), column = static_cast<size_t>(change.column);
  return column <= step + 1 ? column : 1 + run.u.size() + column - (step + 2);
}

// Runs of a solver with one number changed in each, side by side: sample s of change c is row
// c * samples + s. Changes are in the order of the evaluations that see them first, so those under
// way are always the first rows. Only differences to the unchanged run are kept: they lose nothing
// to the rounding of the states.
class ChangedRuns {
 public:
  ChangedRuns(const NsSolver& solver, const PlainRun& run, std::vector<Change> changes,
              int64_t most_rows)
      : solver_(solver),
        shape_(solver.shape()),
        run_(run),
        changes_(std::move(changes)),
        most_rows_(most_rows),
        samples_(run.x.front().size(0)),
        slopes_(solver.a.size()),
        differences_(solver.a.size()) {}

  torch::Tensor columns(const Field& field, Counts* counts) {
    begin();
    for (size_t k = first_of(0); k < solver_.a.size(); ++k) {
      evaluate_rows(k, field);
      step(k);
    }
    require_finite();
    for (size_t c = 0; c < changes_.size(); ++c) {
      counts->forwards += samples_ * shape_.calls_from(static_cast<int>(first_of(c)));
    }
    return by_change(state_) / sizes_;
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

  torch::Tensor rows(const torch::Tensor& tensor, size_t begin, size_t end) const {
    return tensor.slice(0, static_cast<int64_t>(begin) * samples_,
                        static_cast<int64_t>(end) * samples_);
  }

  // [changes, samples, ...] of rows.
  torch::Tensor by_change(const torch::Tensor& rows) const {
    std::vector<int64_t> shape = {rows.size(0) / samples_};
    shape.insert(shape.end(), run_.x.front().sizes().begin(), run_.x.front().sizes().end());
    return rows.view(shape);
  }

  // By how much each change changed its number, and how that moves the state at its first
  // evaluation: so many times a column.
  void begin() {
    const torch::Tensor columns = torch::stack(alike(columns_of(run_)));
    const torch::Tensor of_columns = root_mean_squares(columns, 2);
    const torch::Tensor of_states = root_mean_squares(torch::stack(run_.x), 2);
    const auto count = static_cast<int64_t>(changes_.size());
    const torch::Tensor sizes = torch::zeros({count, samples_}, torch::kDouble);
    const torch::Tensor factors = torch::zeros_like(sizes);
    std::vector<int64_t> along;
    for (int64_t c = 0; c < count; ++c) {
      const Change& change = changes_[static_cast<size_t>(c)];
      int64_t column = 0;
      if (change.what == Change::What::time) {
        sizes[c].fill_(change.size);
      } else if (change.what == Change::What::start_scale) {
        sizes[c].fill_(change.size * solver_.start_scale);
        factors[c].fill_(change.size);
      } else {
        column = static_cast<int64_t>(column_of(change, run_));
        sizes[c].copy_(change.size * of_states[change.first_evaluation()] / of_columns[column]);
        factors[c].copy_(sizes[c]);
      }
      along.push_back(column);
    }
    sizes_ = per_number(sizes);
    state_ = rows_of(columns, along).mul_(per_number(factors)).flatten(0, 1);
    start_ = rows(state_, 0, under_way(0)).clone();
  }

  // A number for each change and sample, where the states are: [changes, samples, 1, ...].
  torch::Tensor per_number(const torch::Tensor& values) const {
    const torch::Tensor& x = run_.x.front();
    std::vector<int64_t> shape(static_cast<size_t>(x.dim()) + 1, 1);
    shape[0] = values.size(0);
    shape[1] = values.size(1);
    return sent(values.reshape(shape), x.device(), x.scalar_type());
  }

  // Fills in how what the field returns differs from what it did in the unchanged run.
  void evaluate_rows(size_t k, const Field& field) {
    const size_t count = under_way(k);
    const auto most = static_cast<size_t>(std::max<int64_t>(1, most_rows_ / samples_));
    const size_t batches = (count + most - 1) / most;
    const size_t each = (count + batches - 1) / batches;
    std::vector<torch::Tensor> slopes, differences;
    for (size_t begin = 0; begin < count; begin += each) {
      const size_t end = std::min(count, begin + each);
      const auto change_of = [&](const torch::Tensor& found, const torch::Tensor& before) {
        const auto type = state_.scalar_type();
        const torch::Tensor here = by_change(found.detach().contiguous().to(type));
        return (here - before.to(type).unsqueeze(0)).flatten(0, 1);
      };
      const torch::Tensor x =
          (by_change(rows(state_, begin, end)) + run_.x[k].unsqueeze(0)).flatten(0, 1);
      const GuidanceParts parts =
          evaluate(shape_, k, field, x, times(k, begin, end),
                   repeat(run_.chunk.conditions, static_cast<int64_t>(end - begin)));
      slopes.push_back(change_of(parts.conditional, run_.u[k]));
      if (parts.difference.defined()) {
        differences.push_back(change_of(parts.difference, run_.d[differences_before(k)]));
      }
    }
    slopes_[k] = torch::cat(slopes);
    if (!differences.empty()) differences_[k] = torch::cat(differences);
  }

  // Of the evaluations before it.
  size_t differences_before(size_t k) const { return k == 0 ? 0 : shape_.differences(k - 1); }

  torch::Tensor times(size_t k, size_t begin, size_t end) const {
    const torch::Tensor times = torch::full({static_cast<int64_t>(end - begin), samples_},
                                            solver_.times[k], torch::kDouble);
    for (size_t c = begin; c < end; ++c) {
      const bool moved = changes_[c].what == Change::What::time && first_of(c) == k;
      if (moved) times[static_cast<int64_t>(c - begin)].add_(changes_[c].size);
    }
    return times.flatten();
  }

  // Each evaluation changed the states of the rows that it saw, the first ones.
  void step(size_t k) {
    rows(state_, 0, under_way(k)).zero_();
    const auto add = [&](const torch::Tensor& change, double coefficient) {
      state_.slice(0, 0, change.size(0)).add_(change, coefficient);
    };
    add(start_, solver_.a[k]);
    for (size_t j = first_of(0); j <= k; ++j) {
      add(slopes_[j], solver_.b[k][j]);
      if (differences_[j].defined()) add(differences_[j], solver_.c[k][differences_before(j)]);
    }
    finite_.push_back(torch::isfinite(rows(state_, 0, under_way(k))).all());
  }

  // At the end, since a device is waited for.
  void require_finite() const {
    const torch::Tensor finite = torch::stack(finite_).to(torch::kCPU);
    const auto* begin = finite.data_ptr<bool>();
    const auto* bad = std::find(begin, begin + finite.size(0), false);
    if (bad == begin + finite.size(0)) return;
    const size_t k = first_of(0) + static_cast<size_t>(bad - begin);
    throw Error(ErrorKind::diverged,
                fmt::format("a run with one number changed a little is not finite after step {} of "
                            "{} (t = {})",
                            k + 1, solver_.nfe(), solver_.times[k]));
  }

  const NsSolver& solver_;
  const SolverShape shape_;
  const PlainRun& run_;
  std::vector<Change> changes_;
  int64_t most_rows_, samples_;
  torch::Tensor sizes_, state_, start_;
  std::vector<torch::Tensor> slopes_, differences_;  // by evaluation
  std::vector<torch::Tensor> finite_;                // whether all states are, by step
};

}  // namespace

torch::Tensor changes_of_end(const NsSolver& solver, const PlainRun& run,
                             const std::vector<Change>& changes, const Field& field,
                             int64_t most_rows, Counts* counts) {
  // Runs side by side take memory for every evaluation: that of so many batches.
  constexpr int64_t kBatches = 8;
  const auto most =
      static_cast<size_t>(std::max<int64_t>(1, kBatches * most_rows / run.x.front().size(0)));
  std::vector<int64_t> order(changes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto change_at = [&](int64_t place) { return changes[static_cast<size_t>(place)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t left, int64_t right) {
    return change_at(left).first_evaluation() < change_at(right).first_evaluation();
  });
  std::vector<torch::Tensor> parts;
  for (size_t begin = 0; begin < order.size(); begin += most) {
    std::vector<Change> together;
    for (size_t m = begin; m < std::min(order.size(), begin + most); ++m) {
      together.push_back(change_at(order[m]));
    }
    parts.push_back(ChangedRuns(solver, run, together, most_rows).columns(field, counts));
  }
  std::vector<int64_t> places(order.size());
  for (size_t m = 0; m < order.size(); ++m)
    places[static_cast<size_t>(order[m])] = static_cast<int64_t>(m);
  return rows_of(torch::cat(parts), places);
}

torch::Tensor root_mean_squares(const torch::Tensor& x, int64_t leading) {
  return x.flatten(leading)
      .to(torch::kDouble)
      .square()
      .mean(-1)
      .sqrt()
      .clamp_min(1e-30)
      .to(torch::kCPU);
}

}  // namespace bespoke::detail
