#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/tensor_objective.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/transfer.h"
#include "changed_runs.h"
#include "tensor_columns.h"

namespace bespoke {

using namespace detail;

LinearModel TensorObjective::last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                                       Counts* counts) const {
  LinearModel last;
  for (const PlainRun& run : plain_runs(solver, subset, counts)) {
    append_samples(last, columns_of(run), residual(run.x.back(), run.chunk));
  }
  return last;
}

// The columns, kept on the device where they are small, so that several linearisations are, and
// otherwise where there is room: in the memory of the CPU.
class TensorObjective::Columns : public Linearisation {
 public:
  Columns(const TensorObjective& objective, std::vector<int64_t> subset)
      : objective_(objective), subset_(std::move(subset)) {}

  void append(const torch::Tensor& columns, const torch::Tensor& residual) {
    constexpr size_t kSmall = size_t{64} << 20;  // bytes
    append_samples(model_, columns, residual);
    chunks_.push_back(columns.nbytes() <= kSmall ? columns : columns.to(torch::kCPU));
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
    const torch::Tensor& x = run.x.back();
    std::vector<torch::Tensor> columns = {torch::stack(alike(columns_of(run)))};
    if (!changes.empty()) {
      columns.insert(columns.begin(),
                     changes_of_end(solver, run, changes, *field_, options_.device_batch, counts));
    }
    const torch::Tensor all = torch::cat(columns).transpose(0, 1).contiguous();
    const torch::Tensor r = residual(x, run.chunk);
    result->append(options_.decode ? decoded_columns(all, x, run.chunk, r) : all, r);
  }
  return result;
}

// How the decoded sample changes, by differences that move the sample as little as others do.
torch::Tensor TensorObjective::decoded_columns(const torch::Tensor& columns, const torch::Tensor& x,
                                               const SampleChunk& chunk,
                                               const torch::Tensor& r) const {
  constexpr double kMove = 1e-2;
  const torch::Tensor sizes =
      kMove * root_mean_squares(x, 1).unsqueeze(1) / root_mean_squares(columns, 2);
  std::vector<torch::Tensor> decoded;
  for (int64_t c = 0; c < columns.size(1); ++c) {
    const torch::Tensor size = sent(sizes.select(1, c).contiguous(), x.device(), x.scalar_type());
    const torch::Tensor moved =
        residual(x + per_sample(size, x.dim()) * columns.select(1, c), chunk) - r;
    decoded.push_back(moved / per_sample(size, moved.dim()));
  }
  return torch::stack(decoded, 1);
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
