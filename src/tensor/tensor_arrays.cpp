#include "bespoke/tensor/tensor_arrays.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/inner_products.h"
#include "bespoke/tensor/pending_states.h"
#include "bespoke/tensor/tensor_bytes.h"
#include "bespoke/tensor/transfer.h"

namespace bespoke {

namespace {

// The states of a run on the CPU: a step is one pass over memory, which also sees whether the state
// is finite.
class CpuStates : public GrowingStates {
 public:
  CpuStates(NsSolver solver, torch::Tensor start)
      : solver_(std::move(solver)),
        terms_({std::move(start)}),
        first_not_finite_(solver_.a.size()) {}

  bool add(size_t step, const Array& velocity, const Array& difference) override {
    terms_.insert(terms_.begin() + 1 + static_cast<std::ptrdiff_t>(step), tensor_of(velocity));
    if (difference) terms_.push_back(tensor_of(difference));
    // The last state is overwritten where nobody kept it: memory is that of one.
    torch::Tensor next =
        state_ && state_.is_unshared() ? tensor_of(state_) : torch::empty_like(terms_.front());
    const bool finite = combine(next, terms_, step_coefficients(solver_, step));
    state_ = array_of(next);
    if (!finite) first_not_finite_ = std::min(first_not_finite_, step);
    return finite;
  }

  Array state(size_t /*step*/) const override { return state_; }
  size_t first_not_finite() const override { return first_not_finite_; }

 private:
  NsSolver solver_;
  std::vector<torch::Tensor> terms_;
  Array state_;
  size_t first_not_finite_;
};

double epsilon_of(torch::ScalarType type) {
  switch (type) {
    case torch::kDouble:
      return std::numeric_limits<double>::epsilon();
    case torch::kHalf:
      return 0x1p-10;
    case torch::kBFloat16:
      return 0x1p-7;
    default:
      return double{std::numeric_limits<float>::epsilon()};
  }
}

bool are_in_a_row(const std::vector<int64_t>& samples) {
  for (size_t k = 1; k < samples.size(); ++k) {
    if (samples[k] != samples[k - 1] + 1) return false;
  }
  return !samples.empty();
}

// [samples, columns, ...] of columns side by side.
torch::Tensor by_sample(const torch::Tensor& columns, int64_t samples) {
  std::vector<int64_t> shape = columns.sizes().vec();
  shape.front() = samples;
  shape.insert(shape.begin(), columns.size(0) / samples);
  return columns.contiguous().view(shape).transpose(0, 1).contiguous();
}

class TensorArrays : public Arrays {
 public:
  int64_t count(const Array& x) const override { return tensor_of(x).size(0); }
  int64_t sample_size(const Array& x) const override {
    const auto& shape = tensor_of(x).sizes();
    int64_t size = 1;
    for (size_t k = 1; k < shape.size(); ++k) size *= shape[k];
    return size;
  }
  double epsilon(const Array& x) const override { return epsilon_of(tensor_of(x).scalar_type()); }
  int64_t byte_count(const Array& x) const override {
    return static_cast<int64_t>(tensor_of(x).nbytes());
  }

  Array rows(const Array& x, int64_t begin, int64_t end) const override {
    return array_of(tensor_of(x).slice(0, begin, end));
  }
  // Samples in a row are a view: no numbers are sent to a device, and nothing is copied.
  Array take(const Array& x, const std::vector<int64_t>& samples) const override {
    if (are_in_a_row(samples)) return rows(x, samples.front(), samples.back() + 1);
    return array_of(rows_of(tensor_of(x), samples));
  }
  Array concatenate(const std::vector<Array>& parts) const override {
    return parts.size() == 1 ? parts.front() : array_of(torch::cat(tensors_in(parts)));
  }
  Array repeat(const Array& x, int64_t times) const override {
    std::vector<int64_t> repeats(static_cast<size_t>(tensor_of(x).dim()), 1);
    repeats.front() = times;
    return times == 1 ? x : array_of(tensor_of(x).repeat(repeats));
  }
  Array choose(const std::vector<bool>& mask, const Array& yes, const Array& no) const override {
    const torch::Tensor& like = tensor_of(yes);
    torch::Tensor values = torch::empty({static_cast<int64_t>(mask.size())}, torch::kBool);
    std::copy(mask.begin(), mask.end(), values.data_ptr<bool>());
    const torch::Tensor there = copied_to(values, like.device(), torch::kBool);
    return array_of(torch::where(per_sample(there, like.dim()), like, tensor_of(no)));
  }

  Array cast(const Array& x, const Array& like) const override {
    return array_of(tensor_of(x).to(tensor_of(like).device(), tensor_of(like).scalar_type()));
  }
  Array wide(const Array& x) const override {
    return array_of(tensor_of(x).to(torch::kDouble).contiguous());
  }
  Array kept(const Array& x) const override { return array_of(tensor_of(x).to(torch::kCPU)); }

  Array combine(const std::vector<double>& coefficients, const std::vector<Array>& terms,
                const Array& like) const override {
    const torch::Tensor& model = tensor_of(like);
    torch::Tensor sum = empty_state(tensor_of(terms.front()).sizes(), model);
    add_up(sum, tensors_in(terms), coefficients);
    return array_of(sum);
  }

  Array combine_per_sample(const std::vector<std::vector<double>>& coefficients,
                           const std::vector<Array>& terms) const override {
    const torch::Tensor& first = tensor_of(terms.front());
    torch::Tensor sum = empty_state(first.sizes(), first);
    bespoke::combine_per_sample(sum, tensors_in(terms), coefficients);
    return array_of(sum);
  }

  Array combine_first_rows(const std::vector<double>& coefficients,
                           const std::vector<Array>& terms) const override {
    const auto longest = std::max_element(
        terms.begin(), terms.end(),
        [&](const Array& left, const Array& right) { return count(left) < count(right); });
    if (tensor_of(*longest).device().is_cpu()) {
      return Arrays::combine_first_rows(coefficients, terms);
    }
    torch::Tensor sum = torch::zeros_like(tensor_of(*longest));
    for (size_t j = 0; j < terms.size(); ++j) {
      sum.slice(0, 0, count(terms[j])).add_(tensor_of(terms[j]), coefficients[j]);
    }
    return array_of(sum);
  }

  Array weighed(const Array& x, const Array& weights) const override {
    const torch::Tensor& values = tensor_of(x);
    const torch::Tensor factors = tensor_of(weights).to(values.device(), values.scalar_type());
    const int64_t rows = factors.size(0);
    const torch::Tensor folded = values.reshape({values.size(0) / rows, rows, -1});
    return array_of((folded * factors.reshape({1, rows, -1})).reshape(values.sizes()));
  }

  int64_t first_not_finite(const Array& x) const override {
    const torch::Tensor& values = tensor_of(x);
    if (values.numel() == 0 || torch::isfinite(values).all().item<bool>()) return -1;
    const torch::Tensor bad =
        torch::isfinite(values).reshape({values.size(0), -1}).all(1).logical_not();
    return bad.nonzero().min().item<int64_t>();
  }

  std::vector<double> root_mean_squares(const Array& x) const override {
    const torch::Tensor means = tensor_of(x)
                                    .flatten(1)
                                    .to(torch::kDouble)
                                    .square()
                                    .mean(-1)
                                    .sqrt()
                                    .to(torch::kCPU)
                                    .contiguous();
    return {means.data_ptr<double>(), means.data_ptr<double>() + means.numel()};
  }

  std::vector<double> scaled_norms(const std::vector<std::vector<double>>& coefficients,
                                   const std::vector<Array>& terms, const Array& left,
                                   const Array& right, double rtol, double atol) const override {
    return bespoke::scaled_norms(tensors_in(terms), coefficients, tensor_of(left), tensor_of(right),
                                 rtol, atol);
  }

  std::vector<Matrix> grams(const Array& columns, const Array& residual) const override {
    const torch::Tensor& r = tensor_of(residual);
    const torch::Tensor all = by_sample(tensor_of(columns), r.size(0));
    const torch::Tensor values =
        gram_matrices(torch::cat({all, r.to(all.device(), all.scalar_type()).unsqueeze(1)}, 1));
    std::vector<Matrix> result;
    const auto size = static_cast<size_t>(values.size(1));
    for (int64_t s = 0; s < values.size(0); ++s) {
      Matrix gram(size, size);
      std::copy_n(values[s].data_ptr<double>(), size * size, gram.values.begin());
      result.push_back(std::move(gram));
    }
    return result;
  }

  Matrix products(const Array& columns, const Array& residual) const override {
    const torch::Tensor all = by_sample(tensor_of(columns), tensor_of(residual).size(0));
    const torch::Tensor r = tensor_of(residual).to(all.device());
    const torch::Tensor values =
        torch::cat({column_products(r, all), inner_products(r, {r})}, 1).to(torch::kCPU);
    Matrix result(static_cast<size_t>(values.size(0)), static_cast<size_t>(values.size(1)));
    std::copy_n(values.contiguous().data_ptr<double>(), values.numel(), result.values.begin());
    return result;
  }

  std::unique_ptr<GrowingStates> grow(const NsSolver& solver, const Array& start) const override {
    const torch::Tensor& x = tensor_of(start);
    if (x.device().is_cpu()) return std::make_unique<CpuStates>(solver, x);
    return std::make_unique<PendingStates>(
        solver, pending_coefficients(solver, x.device(), x.scalar_type()), x);
  }

  std::string bytes(const Array& x) const override {
    return detail::tensor_bytes({tensor_of(x).to(torch::kCPU).contiguous()});
  }
  Array from_bytes(const std::string& bytes) const override {
    return array_of(detail::tensors_of(bytes).front());
  }

 private:
  // An array in the type of a state: float32 or wider.
  static torch::Tensor empty_state(torch::IntArrayRef shape, const torch::Tensor& like) {
    const bool wide = like.scalar_type() == torch::kDouble;
    return torch::empty(shape, like.options().dtype(wide ? torch::kDouble : torch::kFloat));
  }

  static void add_up(torch::Tensor& sum, const std::vector<torch::Tensor>& terms,
                     const std::vector<double>& coefficients) {
    if (sum.device().is_cpu()) {
      bespoke::combine(sum, terms, coefficients);
      return;
    }
    const auto there = [&](size_t j) { return terms[j].to(sum.device(), sum.scalar_type()); };
    // There are to be as few kernels as can be: most sums are of two arrays, and begin with a plain
    // one.
    const bool plain = coefficients[0] == 1 && terms.size() > 1;
    if (plain) {
      torch::add_out(sum, there(0), there(1), coefficients[1]);
    } else {
      torch::mul_out(sum, there(0), torch::scalar_tensor(coefficients[0], sum.scalar_type()));
    }
    for (size_t j = plain ? 2 : 1; j < terms.size(); ++j) sum.add_(there(j), coefficients[j]);
  }
};

}  // namespace

std::shared_ptr<const Arrays> tensor_arrays() {
  static const auto arrays = std::make_shared<TensorArrays>();
  return arrays;
}

std::vector<torch::Tensor> tensors_in(const std::vector<Array>& arrays) {
  std::vector<torch::Tensor> tensors;
  for (const Array& array : arrays) tensors.push_back(tensor_of(array));
  return tensors;
}

}  // namespace bespoke
