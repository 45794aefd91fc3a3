#include "bespoke/recipe/tensor_objective.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/distill/family.h"
#include "bespoke/model/guidance.h"
#include "bespoke/sample/adjoint.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/inner_products.h"
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

// A cotangent of decode(x) pulled back to x.
torch::Tensor pull_back_decoder(const Decode& decode, const torch::Tensor& x,
                                const torch::Tensor& cotangent) {
  if (!decode) return cotangent;
  const torch::AutoGradMode with_grad(true);
  const torch::Tensor leaf = x.detach().requires_grad_();
  const torch::Tensor y = decode(leaf);
  return torch::autograd::grad({y}, {leaf}, {cotangent.to(y.scalar_type())})[0];
}

void require_finite(const LossGradient& at) {
  bool finite = std::isfinite(at.loss);
  for (const double g : at.gradient) finite = finite && std::isfinite(g);
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
  // As samplers have states.
  if (pairs_.x0.scalar_type() != torch::kDouble) pairs_.x0 = pairs_.x0.to(torch::kFloat);
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
        work({chosen(pairs_.x0), chosen(targets_),
              near(select(pairs_.conditions, index), pairs_.x0.device())},
             begin);
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
  const auto add = [&](const torch::Tensor& r) {
    for (const double error : log_means(squared_norms(r), r)) errors.push_back(error);
  };
  if (options_.runs_ahead) {
    if (const auto known = known_runs(solver, subset)) {
      for (const PlainRun& run : *known) add(residual(run.x.back(), run.chunk));
      return errors;
    }
  }
  for_each_chunk(subset, [&](const SampleChunk& chunk, int64_t) {
    const torch::Tensor r = residual(sample(solver, *field_, chunk.x0, chunk.conditions), chunk);
    counts->forwards += chunk.x0.size(0) * solver.shape().calls();
    add(r);
  });
  return errors;
}

LossGradient TensorObjective::loss_gradient(const NsSolver& solver,
                                            const std::vector<int64_t>& subset,
                                            Counts* counts) const {
  LossGradient at{0, std::vector<double>(coefficient_count(solver.shape()), 0)};
  const auto total = static_cast<double>(subset.size());
  for_each_chunk(subset, [&](const SampleChunk& chunk, int64_t) {
    Trajectory run = run_trajectory(solver, *field_, chunk.x0, chunk.conditions, counts);
    const torch::Tensor x = run.x.back();
    const torch::Tensor r = residual(x, chunk).contiguous();
    const torch::Tensor squares = squared_norms(r);
    const torch::Tensor cotangent =
        pull_back_decoder(options_.decode, x, times_per_sample(2 / squares, r));
    const torch::Tensor sums = sweep_back(std::move(run), cotangent, counts).sum(0) / total;
    for (size_t j = 0; j < at.gradient.size(); ++j) at.gradient[j] += sums.data_ptr<double>()[j];
    for (const double error : log_means(squares, r)) at.loss += error / total;
  });
  require_finite(at);
  return at;
}

}  // namespace bespoke
