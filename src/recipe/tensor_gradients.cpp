#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/base/packing.h"
#include "bespoke/distill/family.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/tensor_samples.h"
#include "bespoke/sample/adjoint.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/inner_products.h"

namespace bespoke {

using namespace detail;

namespace {

// The residuals of some samples without what does not count, and how many numbers do in each,
// [batch] float64.
struct Counted {
  torch::Tensor residual, sizes;
};

Counted counted(const torch::Tensor& r, const torch::Tensor& mask, const torch::Tensor& samples) {
  if (!mask.defined()) {
    return {r, torch::full({r.size(0)}, r.numel() / r.size(0), torch::kDouble)};
  }
  const torch::Tensor rows = mask.size(0) == 1 ? mask.expand_as(r) : mask.index_select(0, samples);
  return {(r * rows.to(r.device(), r.scalar_type())).contiguous(),
          rows.flatten(1).sum(1, false, torch::kDouble)};
}

// |r|^2 of each sample, [batch] float64.
torch::Tensor squared_norms(const Counted& counted) {
  const torch::Tensor& r = counted.residual;
  const torch::Tensor squares = inner_products(r, {r}).select(1, 0);
  return torch::maximum(squares, kLeastError * counted.sizes.to(squares.device()));
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

torch::Tensor decoded(const Decode& decode, const torch::Tensor& x) {
  const torch::NoGradGuard no_grad;
  return decode ? decode(x) : x;
}

}  // namespace

TensorGradients::TensorGradients(std::shared_ptr<const Field> field, const Pairs& pairs,
                                 TensorSamplesOptions options)
    : field_(std::move(field)), pairs_(pairs), options_(std::move(options)) {
  if (options_.mask) mask_ = options_.mask(pairs_.conditions);
}

LossGradient TensorGradients::own(const NsSolver& solver, const std::vector<int64_t>& samples,
                                  double weight, Counts* counts) const {
  LossGradient at{0, std::vector<double>(coefficient_count(solver.shape()), 0)};
  const auto size = static_cast<int64_t>(samples.size());
  for_each_batch(
      size, options_.device_batch, nullptr, [&](int64_t begin, int64_t end, const auto&) {
        const torch::Tensor index =
            torch::tensor(std::vector<int64_t>(samples.begin() + begin, samples.begin() + end));
        const auto chosen = [&](const torch::Tensor& all) {
          return all.index_select(0, index.to(all.device()));
        };
        Trajectory run = run_trajectory(
            solver, *field_, chosen(pairs_.x0),
            conditions_on(select(pairs_.conditions, index), pairs_.x0.device()), counts);
        const torch::Tensor x = run.x.back();
        const torch::Tensor y = decoded(options_.decode, x);
        const torch::Tensor target = decoded(options_.decode, chosen(pairs_.x1));
        const Counted all =
            counted((y - target.to(y.device(), y.scalar_type())).contiguous(), mask_, index);
        const torch::Tensor& r = all.residual;
        const torch::Tensor squares = squared_norms(all);
        const torch::Tensor cotangent =
            pull_back_decoder(options_.decode, x, times_per_sample(2 / squares, r));
        const torch::Tensor sums = sweep_back(std::move(run), cotangent, counts).sum(0) * weight;
        for (size_t j = 0; j < at.gradient.size(); ++j) {
          at.gradient[j] += sums.data_ptr<double>()[j];
        }
        const torch::Tensor logs = (squares / all.sizes.to(squares.device())).log();
        at.loss += weight * logs.sum().item<double>();
      });
  return at;
}

LossGradient TensorGradients::at(const NsSolver& solver, const std::vector<int64_t>& samples,
                                 Counts* counts) const {
  const double weight = 1 / static_cast<double>(samples.size());
  Team& team = *options_.team;
  std::vector<int64_t> mine;
  for (const int64_t sample : samples) {
    if (sample % team.size() == team.rank()) mine.push_back(sample);
  }
  LossGradient all;
  for (const std::string& bytes : exchange_work(team, [&] {
         Counts spent;
         const LossGradient part = own(solver, mine, weight, &spent);
         return Packer()
             .add(spent.forwards)
             .add(spent.vjps)
             .add(part.loss)
             .add(part.gradient)
             .bytes();
       })) {
    Unpacker unpacker(bytes);
    counts->forwards += unpacker.integer();
    counts->vjps += unpacker.integer();
    all.loss += unpacker.number();
    const std::vector<double> gradient = unpacker.numbers();
    all.gradient.resize(gradient.size(), 0);
    for (size_t j = 0; j < gradient.size(); ++j) all.gradient[j] += gradient[j];
  }
  require_finite(all);
  return all;
}

}  // namespace bespoke
