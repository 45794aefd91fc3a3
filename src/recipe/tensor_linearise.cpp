#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/tensor_objective.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/combine.h"
#include "tensor_columns.h"

namespace bespoke {

using namespace detail;

namespace {

// What the coefficient of a step's column multiplies.
const torch::Tensor& direction_of(const PlainRun& run, const Change& change) {
  const auto step = static_cast<size_t>(change.step), column = static_cast<size_t>(change.column);
  if (column == 0) return run.x.front();
  return column <= step + 1 ? run.u[column - 1] : run.d[column - (step + 2)];
}

// Root mean squares of each sample, [batch, 1, ...] float64, to divide by.
torch::Tensor root_mean_squares(const torch::Tensor& x) {
  const torch::Tensor values = x.flatten(1).to(torch::kDouble).square().mean(1).sqrt();
  return per_sample(values.clamp_min(1e-30), x.dim());
}

// Those of the tensors of a run, each computed once: many changes move along the same ones.
class RootMeanSquares {
 public:
  const torch::Tensor& of(const torch::Tensor& x) {
    torch::Tensor& known = known_[x.unsafeGetTensorImpl()];
    if (!known.defined()) known = root_mean_squares(x);
    return known;
  }

 private:
  std::unordered_map<const void*, torch::Tensor> known_;
};

// Runs of a solver with one number changed in each, side by side: sample s of change c is row
// c * samples + s. Changes are in the order of the evaluations that see them first, so those under
// way are always the first rows, and the field gets them in few, even batches.
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

  // The change of x_n for a unit of each number changed.
  std::vector<torch::Tensor> columns(const Field& field, Counts* counts) {
    begin();
    for (size_t k = first_of(0); k < solver_.a.size(); ++k) {
      evaluate_rows(k, field);
      step(k);
    }
    require_finite();
    std::vector<torch::Tensor> result;
    const auto parts = state_.chunk(static_cast<int64_t>(changes_.size()));
    for (size_t c = 0; c < changes_.size(); ++c) {
      result.push_back(parts[c] / sizes_[c]);
      counts->forwards += samples_ * shape_.calls_from(static_cast<int>(first_of(c)));
    }
    return result;
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

  // How each change moves the state at its first evaluation, and by how much it changed its number.
  void begin() {
    std::vector<torch::Tensor> moves;
    RootMeanSquares deviations;
    for (const Change& change : changes_) {
      const torch::Tensor& x = run_.x[static_cast<size_t>(change.first_evaluation())];
      if (change.what == Change::What::time) {
        moves.push_back(torch::zeros_like(x));
        sizes_.push_back(torch::full({1}, change.size, x.options()));
      } else if (change.what == Change::What::start_scale) {
        moves.push_back(change.size * x);
        sizes_.push_back(torch::full({1}, change.size * solver_.start_scale, x.options()));
      } else {
        const torch::Tensor& direction = direction_of(run_, change);
        const torch::Tensor size = change.size * deviations.of(x) / deviations.of(direction);
        sizes_.push_back(size.to(x.scalar_type()));
        moves.push_back(sizes_.back() * direction.to(x.scalar_type()));
      }
    }
    state_ = torch::cat(moves);
    start_ = rows(state_, 0, under_way(0)).clone();
  }

  // Fills in how what the field returns differs from what it did in the unchanged run.
  void evaluate_rows(size_t k, const Field& field) {
    const size_t count = under_way(k);
    const auto total = static_cast<int64_t>(count) * samples_;
    const auto batches = static_cast<size_t>((total + most_rows_ - 1) / most_rows_);
    const size_t each = (count + batches - 1) / batches;
    std::vector<torch::Tensor> slopes, differences;
    for (size_t begin = 0; begin < count; begin += each) {
      const size_t end = std::min(count, begin + each);
      const auto copies = static_cast<int64_t>(end - begin);
      const auto change_of = [&](const torch::Tensor& found, const torch::Tensor& before) {
        const auto type = state_.scalar_type();
        return found.detach().contiguous().to(type) - repeat(before, copies).to(type);
      };
      const torch::Tensor x = repeat(run_.x[k], copies) + rows(state_, begin, end);
      const GuidanceParts parts = evaluate(shape_, k, field, x, times(k, begin, end),
                                           repeat(run_.chunk.conditions, copies));
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
    const torch::Tensor same = torch::full({1}, solver_.times[k], torch::kDouble);
    std::vector<torch::Tensor> parts;
    for (size_t c = begin; c < end; ++c) {
      const bool moved = changes_[c].what == Change::What::time && first_of(c) == k;
      parts.push_back((same + (moved ? changes_[c].size : 0)).expand({samples_}));
    }
    return torch::cat(parts);
  }

  void step(size_t k) {
    const size_t count = under_way(k);
    for (size_t begin = 0; begin < count;) {
      const size_t end = under_way(first_of(begin));
      step(k, begin, end);
      begin = end;
    }
  }

  // At the end, since a device is waited for: what is not finite stays so.
  void require_finite() const {
    if (torch::isfinite(state_).all().item<bool>()) return;
    size_t k = first_of(0);
    while (k + 1 < slopes_.size() && torch::isfinite(slopes_[k]).all().item<bool>()) ++k;
    throw Error(ErrorKind::diverged,
                fmt::format("a run with one number changed a little is not finite after step {} of "
                            "{} (t = {})",
                            k + 1, solver_.nfe(), solver_.times[k]));
  }

  // Of changes that the same evaluation sees first. Only differences are kept: they lose nothing to
  // the rounding of the states.
  void step(size_t k, size_t begin, size_t end) {
    const size_t first = first_of(begin);
    std::vector<torch::Tensor> terms;
    std::vector<double> coefficients;
    const auto add = [&](const torch::Tensor& term, double coefficient) {
      terms.push_back(rows(term, begin, end));
      coefficients.push_back(coefficient);
    };
    for (size_t j = first; j <= k; ++j) add(slopes_[j], solver_.b[k][j]);
    for (size_t j = first; j <= k; ++j) {
      if (differences_[j].defined()) add(differences_[j], solver_.c[k][differences_before(j)]);
    }
    if (first == 0) add(start_, solver_.a[k]);
    torch::Tensor state = rows(state_, begin, end);
    add_up(state, terms, coefficients);
  }

  const NsSolver& solver_;
  const SolverShape shape_;
  const PlainRun& run_;
  std::vector<Change> changes_;
  int64_t most_rows_, samples_;
  std::vector<torch::Tensor> sizes_, slopes_, differences_;  // the last two by evaluation
  torch::Tensor state_, start_;
};

}  // namespace

LinearModel TensorObjective::last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                                       Counts* counts) const {
  LinearModel last;
  for (const PlainRun& run : plain_runs(solver, subset, counts)) {
    append_samples(last, columns_of(run), residual(run.x.back(), run.chunk));
  }
  return last;
}

std::vector<torch::Tensor> TensorObjective::changed_columns(const NsSolver& solver,
                                                            const PlainRun& run,
                                                            const std::vector<Change>& changes,
                                                            Counts* counts) const {
  // Runs side by side take memory for every evaluation: that of so many batches.
  constexpr int64_t kBatches = 8;
  const auto most = static_cast<size_t>(
      std::max<int64_t>(1, kBatches * options_.device_batch / run.x.front().size(0)));
  std::vector<size_t> order(changes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return changes[left].first_evaluation() < changes[right].first_evaluation();
  });
  std::vector<torch::Tensor> columns(changes.size());
  for (size_t begin = 0; begin < order.size(); begin += most) {
    const size_t end = std::min(order.size(), begin + most);
    std::vector<Change> together;
    for (size_t m = begin; m < end; ++m) together.push_back(changes[order[m]]);
    const auto part =
        ChangedRuns(solver, run, together, options_.device_batch).columns(*field_, counts);
    for (size_t m = begin; m < end; ++m) columns[order[m]] = part[m - begin];
  }
  return columns;
}

// The columns, kept on the device where they are small, so that several linearisations are, and
// otherwise where there is room: in the memory of the CPU.
class TensorObjective::Columns : public Linearisation {
 public:
  Columns(const TensorObjective& objective, std::vector<int64_t> subset)
      : objective_(objective), subset_(std::move(subset)) {}

  void append(const std::vector<torch::Tensor>& columns, const torch::Tensor& residual) {
    constexpr size_t kSmall = size_t{64} << 20;  // bytes
    append_samples(model_, columns, residual);
    std::vector<torch::Tensor> alike;
    for (const auto& column : columns) alike.push_back(column.to(columns.front().scalar_type()));
    const torch::Tensor kept = torch::stack(alike, 1);
    chunks_.push_back(kept.nbytes() <= kSmall ? kept : kept.to(torch::kCPU));
  }

  const LinearModel& model() const override { return model_; }

  LinearModel against(const NsSolver& solver, Counts* counts) const override {
    return against(objective_.residuals(solver, subset_, counts));
  }

  // With the residuals of its samples.
  LinearModel against(const torch::Tensor& residuals) const {
    LinearModel moved = model_;
    int64_t row = 0;
    for (const torch::Tensor& columns : chunks_) {
      const int64_t count = columns.size(0);
      replace_residuals(&moved.samples[static_cast<size_t>(row)], columns,
                        residuals.slice(0, row, row + count).to(columns.device()));
      row += count;
    }
    return moved;
  }

  const std::vector<int64_t>& subset() const { return subset_; }

 private:
  const TensorObjective& objective_;
  std::vector<int64_t> subset_;
  LinearModel model_;
  std::vector<torch::Tensor> chunks_;  // [batch, columns, ...]
};

torch::Tensor TensorObjective::residuals(const NsSolver& solver, const std::vector<int64_t>& subset,
                                         Counts* counts) const {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parts;
  if (const auto known = known_runs(solver, subset)) {
    for (const PlainRun& run : *known) parts.push_back(residual(run.x.back(), run.chunk));
    return torch::cat(parts);
  }
  for_each_chunk(subset, [&](const SampleChunk& chunk, int64_t) {
    const torch::Tensor x = sample(solver, *field_, chunk.x0, chunk.conditions);
    counts->forwards += chunk.x0.size(0) * solver.shape().calls();
    parts.push_back(residual(x, chunk));
  });
  return torch::cat(parts);
}

std::vector<std::optional<LinearModel>> TensorObjective::against(
    const NsSolver& solver, const std::vector<const Linearisation*>& all, Counts* counts) const {
  std::vector<int64_t> subset;
  for (const Linearisation* each : all) {
    const auto& samples = static_cast<const Columns*>(each)->subset();
    subset.insert(subset.end(), samples.begin(), samples.end());
  }
  if (subset.empty()) return {};
  torch::Tensor found;
  try {
    found = residuals(solver, subset, counts);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    return Objective::against(solver, all, counts);
  }
  std::vector<std::optional<LinearModel>> models;
  int64_t row = 0;
  for (const Linearisation* each : all) {
    const auto& columns = *static_cast<const Columns*>(each);
    const auto count = static_cast<int64_t>(columns.subset().size());
    models.push_back(columns.against(found.slice(0, row, row + count)));
    row += count;
  }
  return models;
}

std::unique_ptr<Linearisation> TensorObjective::linearise(const NsSolver& solver,
                                                          const std::vector<int64_t>& subset,
                                                          const std::vector<Change>& changes,
                                                          Counts* counts) const {
  const torch::NoGradGuard no_grad;
  auto result = std::make_unique<Columns>(*this, subset);
  for (const PlainRun& run : plain_runs(solver, subset, counts)) {
    std::vector<torch::Tensor> columns = changed_columns(solver, run, changes, counts);
    for (const auto& column : columns_of(run)) columns.push_back(column);
    const torch::Tensor& x = run.x.back();
    const torch::Tensor r = residual(x, run.chunk);
    if (options_.decode) {
      // How the decoded sample changes, by differences that move the sample as little as others do.
      constexpr double kMove = 1e-2;
      for (auto& column : columns) {
        const torch::Tensor size =
            (kMove * root_mean_squares(x) / root_mean_squares(column)).to(x.scalar_type());
        const torch::Tensor moved = residual(x + size * column, run.chunk) - r;
        column = moved / per_sample(size.flatten(), moved.dim());
      }
    }
    result->append(columns, r);
  }
  return result;
}

// The columns are x_0, the velocities and the differences so far; states are those of the true
// trajectories.
class TensorObjective::Steps : public StepwiseRun {
 public:
  Steps(const TensorObjective& objective, SolverShape shape, const std::vector<int64_t>& subset,
        Counts* counts)
      : objective_(objective),
        shape_(std::move(shape)),
        index_(torch::tensor(subset)),
        counts_(counts) {
    const Pairs& pairs = objective_.pairs_;
    noise_ = pairs.x0.index_select(0, index_.to(pairs.x0.device()));
    conditions_ = near(select(pairs.conditions, index_), noise_.device());
  }

  LinearModel noise_against(double time) override { return against({noise_}, time); }

  void start(double scale) override { start_ = state_ = scale * noise_; }

  LinearModel evaluate(double time, double next_time) override {
    const torch::NoGradGuard no_grad;
    const int64_t count = state_.size(0), batch = objective_.options_.device_batch;
    const size_t step = velocities_.size();
    std::vector<torch::Tensor> velocities, differences;
    for (int64_t begin = 0; begin < count; begin += batch) {
      const int64_t end = std::min(count, begin + batch);
      const torch::Tensor t = torch::full({1}, time, torch::kDouble).expand({end - begin});
      const GuidanceParts parts =
          bespoke::evaluate(shape_, step, *objective_.field_, state_.slice(0, begin, end), t,
                            slice(conditions_, begin, end));
      velocities.push_back(parts.conditional);
      if (parts.difference.defined()) differences.push_back(parts.difference);
    }
    keep(velocities, time, velocities_);
    if (!differences.empty()) keep(differences, time, differences_);
    return against(columns_of(start_, velocities_, differences_), next_time);
  }

  void advance(const std::vector<double>& coefficients) override {
    torch::Tensor next = torch::empty_like(state_);
    if (!combine(next, columns_of(start_, velocities_, differences_), coefficients)) {
      throw Error(ErrorKind::diverged, "a state of the fit is not finite");
    }
    state_ = next;
  }

 private:
  // What one call for each sample returned, batch by batch.
  void keep(const std::vector<torch::Tensor>& parts, double time,
            std::vector<torch::Tensor>& columns) {
    columns.push_back(torch::cat(parts).contiguous());
    counts_->forwards += columns.back().size(0);
    if (!torch::isfinite(columns.back()).all().item<bool>()) {
      throw Error(ErrorKind::diverged,
                  fmt::format("the model returned NaN or infinity at t = {}", time));
    }
  }

  LinearModel against(const std::vector<torch::Tensor>& columns, double time) const {
    const torch::Tensor truth =
        objective_.pairs_.trajectories->state_at(time).index_select(0, index_);
    LinearModel model;
    append_samples(model, columns, -truth.to(noise_.device(), noise_.scalar_type()));
    return model;
  }

  const TensorObjective& objective_;
  SolverShape shape_;
  torch::Tensor index_;
  Counts* counts_;
  torch::Tensor noise_, start_, state_;
  Conditions conditions_;
  std::vector<torch::Tensor> velocities_, differences_;
};

int64_t TensorObjective::trajectories() const {
  return pairs_.trajectories ? std::min(pairs_.trajectories->count(), count()) : 0;
}

std::unique_ptr<StepwiseRun> TensorObjective::begin_run(const SolverShape& shape,
                                                        const std::vector<int64_t>& subset,
                                                        Counts* counts) const {
  return std::make_unique<Steps>(*this, shape, subset, counts);
}

}  // namespace bespoke
