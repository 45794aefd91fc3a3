#include "bespoke/recipe/tensor_objective.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"
#include "bespoke/distill/family.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/inner_products.h"
#include "bespoke/tensor/noise.h"
#include "tensor_columns.h"

namespace bespoke {

using namespace detail;

namespace {

double size_of_sample(const torch::Tensor& r) { return static_cast<double>(r.numel() / r.size(0)); }

// |r|^2 of each sample, [batch] float64.
torch::Tensor squared_norms(const torch::Tensor& r) {
  return inner_products(r, {r}).select(1, 0).clamp_min(kLeastError * size_of_sample(r));
}

// log(|r|^2 / size) of each sample.
std::vector<double> log_means(const torch::Tensor& squares, const torch::Tensor& r) {
  const torch::Tensor values = squares.to(torch::kCPU).contiguous();
  std::vector<double> logs;
  for (int64_t i = 0; i < values.size(0); ++i) {
    logs.push_back(std::log(values.data_ptr<double>()[i] / size_of_sample(r)));
  }
  return logs;
}

torch::Tensor times_per_sample(const torch::Tensor& factor, const torch::Tensor& values) {
  return per_sample(factor, values.dim()).to(values.device(), values.scalar_type()) * values;
}

// Probes for the samples of r, of which the first has this number.
torch::Tensor signs_like(const torch::Tensor& r, const LocalModelOptions& options, int64_t first) {
  const std::vector<int64_t> shape(r.sizes().begin() + 1, r.sizes().end());
  return random_signs(options.seed, options.stream, static_cast<uint64_t>(first), r.size(0), shape)
      .to(r.options());
}

// Cotangents of decode(x) pulled back to x.
std::vector<torch::Tensor> pull_back_decoder(const Decode& decode, const torch::Tensor& x,
                                             const std::vector<torch::Tensor>& cotangents) {
  if (!decode) return cotangents;
  const torch::AutoGradMode with_grad(true);
  const torch::Tensor leaf = x.detach().requires_grad_();
  const torch::Tensor y = decode(leaf);
  std::vector<torch::Tensor> pulled;
  for (size_t k = 0; k < cotangents.size(); ++k) {
    pulled.push_back(torch::autograd::grad({y}, {leaf}, {cotangents[k].to(y.scalar_type())},
                                           /*retain_graph=*/k + 1 < cotangents.size())[0]);
  }
  return pulled;
}

// sums += factor row row^T for every row [rows, columns], lower triangle only.
void add_outer_products(Matrix& sums, const torch::Tensor& rows, double factor) {
  const auto* data = rows.data_ptr<double>();
  const size_t columns = sums.columns;
  for (int64_t s = 0; s < rows.size(0); ++s) {
    const double* row = data + s * static_cast<int64_t>(columns);
    for (size_t i = 0; i < columns; ++i) {
      const double scaled = factor * row[i];
      if (scaled == 0) continue;
      for (size_t j = 0; j <= i; ++j) sums(i, j) += scaled * row[j];
    }
  }
}

void add_rows(std::vector<double>& sums, const torch::Tensor& rows) {
  const auto* data = rows.data_ptr<double>();
  for (int64_t s = 0; s < rows.size(0); ++s) {
    for (size_t j = 0; j < sums.size(); ++j) sums[j] += *data++;
  }
}

void mirror(Matrix& matrix) {
  for (size_t i = 0; i < matrix.rows; ++i) {
    for (size_t j = 0; j < i; ++j) matrix(j, i) = matrix(i, j);
  }
}

void require_finite(const LocalModel& model) {
  bool finite = std::isfinite(model.loss);
  for (const double g : model.gradient) finite = finite && std::isfinite(g);
  for (const double h : model.curvature.values) finite = finite && std::isfinite(h);
  if (!finite) {
    throw Error(ErrorKind::diverged,
                "the gradient of the loss is not finite; the model's own "
                "gradients may overflow in its precision");
  }
}

}  // namespace

TensorObjective::TensorObjective(std::shared_ptr<const Field> field, Pairs pairs,
                                 TensorObjectiveOptions options)
    : field_(std::move(field)), pairs_(std::move(pairs)), options_(std::move(options)) {
  if (pairs_.x0.dim() < 2 || pairs_.count() == 0 || pairs_.x1.size(0) != pairs_.count()) {
    throw bad_input("pairs need as many samples as noises and at least one, found {} and {}",
                    pairs_.x1.size(0), pairs_.x0.size(0));
  }
  if (!options_.decode) {
    targets_ = pairs_.x1;
    return;
  }
  std::vector<torch::Tensor> parts;
  for_each_batch(count(), options_.device_batch, nullptr,
                 [&](int64_t begin, int64_t end, const auto&) {
                   parts.push_back(decode(pairs_.x1.slice(0, begin, end)));
                 });
  targets_ = torch::cat(parts);
}

double TensorObjective::sample_size() const {
  return static_cast<double>(targets_.numel()) / static_cast<double>(count());
}

double TensorObjective::data_deviation() const {
  return pairs_.x1.square().mean().sqrt().item<double>();
}

torch::Tensor TensorObjective::decode(const torch::Tensor& x) const {
  const torch::NoGradGuard no_grad;
  return options_.decode ? options_.decode(x) : x;
}

void TensorObjective::for_each_chunk(
    const std::vector<int64_t>& subset,
    const std::function<void(const SampleChunk&, int64_t begin)>& work) const {
  const auto size = static_cast<int64_t>(subset.size());
  for_each_batch(
      size, options_.device_batch, nullptr, [&](int64_t begin, int64_t end, const auto&) {
        const torch::Tensor index =
            torch::tensor(std::vector<int64_t>(subset.begin() + begin, subset.begin() + end));
        const auto chosen = [&](const torch::Tensor& tensor) {
          return tensor.index_select(0, index.to(tensor.device()));
        };
        work({chosen(pairs_.x0), chosen(targets_), select(pairs_.conditions, index)}, begin);
      });
}

torch::Tensor TensorObjective::residual(const torch::Tensor& x, const SampleChunk& chunk) const {
  const torch::Tensor y = decode(x);
  return y - chunk.target.to(y.device(), y.scalar_type());
}

std::vector<double> TensorObjective::log_errors(const NsSolver& solver,
                                                const std::vector<int64_t>& subset,
                                                Counts* counts) const {
  std::vector<double> errors;
  for_each_chunk(subset, [&](const SampleChunk& chunk, int64_t) {
    const torch::Tensor r = residual(sample(solver, *field_, chunk.x0, chunk.conditions), chunk);
    counts->forwards += chunk.x0.size(0) * solver.nfe();
    for (const double error : log_means(squared_norms(r), r)) errors.push_back(error);
  });
  return errors;
}

// A run of the solver on a chunk, with what it missed by.
struct TensorObjective::Run {
  Trajectory trajectory;
  torch::Tensor residual;
  int64_t begin;  // of the chunk in the subset

  std::vector<torch::Tensor> basis() const {
    std::vector<torch::Tensor> tensors = {trajectory.x.front()};
    tensors.insert(tensors.end(), trajectory.u.begin(), trajectory.u.end());
    return tensors;
  }
};

double TensorObjective::geometric_mean_square(const std::vector<Run>& runs) {
  std::vector<double> errors;
  for (const Run& run : runs) {
    const auto logs = log_means(squared_norms(run.residual), run.residual);
    errors.insert(errors.end(), logs.begin(), logs.end());
  }
  return std::exp(mean(errors));
}

std::vector<double> TensorObjective::refit(std::vector<Run>& runs, double floor) const {
  LinearModel last;
  last.floor = floor;
  for (const Run& run : runs) append_samples(last, run.basis(), run.residual);
  const std::vector<double> change = best_change(last);
  for (Run& run : runs) {
    NsSolver& solver = run.trajectory.solver;
    solver.a.back() += change[0];
    for (size_t j = 0; j + 1 < change.size(); ++j) solver.b.back()[j] += change[j + 1];
    for (torch::Tensor* tensor : {&run.trajectory.x.back(), &run.residual}) {
      std::vector<torch::Tensor> terms = run.basis();
      std::vector<double> factors = change;
      terms.insert(terms.begin(), *tensor);
      factors.insert(factors.begin(), 1);
      torch::Tensor moved = torch::empty_like(*tensor);
      combine(moved, terms, factors);
      *tensor = moved;
    }
  }
  return change;
}

LocalModel TensorObjective::local_model(const NsSolver& solver, const std::vector<int64_t>& subset,
                                        const LocalModelOptions& options, Counts* counts) const {
  const size_t columns = coefficient_count(solver.nfe());
  const auto total = static_cast<double>(subset.size());
  LocalModel model{0, std::vector<double>(columns, 0), Matrix(columns, columns), 0, {}};
  std::vector<Run> runs;
  for_each_chunk(subset, [&](const SampleChunk& chunk, int64_t begin) {
    Trajectory trajectory =
        run_trajectory(solver, *field_, chunk.x0, chunk.conditions, options_.memory, counts);
    const torch::Tensor r = residual(trajectory.x.back(), chunk).contiguous();
    runs.push_back({std::move(trajectory), r, begin});
  });
  model.floor = options.smoothing * geometric_mean_square(runs) * sample_size();
  if (options.refit_last_step) model.last_step = refit(runs, model.floor);
  for (Run& run : runs) {
    const torch::Tensor& r = run.residual;
    const torch::Tensor squares = squared_norms(r) + model.floor;
    std::vector<torch::Tensor> cotangents = {times_per_sample(2 / squares, r)};
    for (int p = 0; p < options.probes; ++p) {
      const int64_t first = run.begin + p * static_cast<int64_t>(subset.size());
      cotangents.push_back(times_per_sample((2 / squares).sqrt(), signs_like(r, options, first)));
    }
    const torch::Tensor& x = run.trajectory.x.back();
    const torch::Tensor rows = sweep_back(
        run.trajectory, *field_, pull_back_decoder(options_.decode, x, cotangents), counts);
    add_rows(model.gradient, rows[0]);
    for (int p = 0; p < options.probes; ++p) {
      add_outer_products(model.curvature, rows[1 + p], 1 / (total * options.probes));
    }
    for (const double error : log_means(squares, r)) model.loss += error;
    run = {};  // its graphs are no longer needed
  }
  model.loss /= total;
  for (double& g : model.gradient) g /= total;
  mirror(model.curvature);
  require_finite(model);
  return model;
}

}  // namespace bespoke
