#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/matrix.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// An array of whatever library, whose first axis is the samples. Only the Arrays that made it looks
// inside.
class Array {
 public:
  // No array.
  Array() = default;

  // Holds an array of a library.
  template <class Content>
  static Array of(Content content) {
    Array array;
    array.content_ = std::make_shared<const Content>(std::move(content));
    return array;
  }

  // The array of the library, which must be of the type that `of` was given.
  template <class Content>
  const Content& as() const {
    return *static_cast<const Content*>(content_.get());
  }

  // Whether there is an array.
  explicit operator bool() const { return content_ != nullptr; }

  // Whether no other Array shares the content.
  bool is_unshared() const { return content_.use_count() == 1; }

 private:
  std::shared_ptr<const void> content_;
};

// The states of a solver's run as its evaluations add to them: x_{i+1} is complete with u_i.
class GrowingStates {
 public:
  virtual ~GrowingStates() = default;

  // Takes u_i and, of a guided step, d_i. Returns false where x_{i+1} is known not to be finite;
  // a device that would have to be waited for returns true.
  virtual bool add(size_t step, const Array& velocity, const Array& difference) = 0;

  // x_{step+1} of the step added last, or of any step that could not tell whether it is finite.
  virtual Array state(size_t step) const = 0;

  // The first step after which the state is not finite, or the number of steps. May wait for a
  // device.
  virtual size_t first_not_finite() const = 0;
};

// All that runs need of an array library. Arrays are values: no operation changes one. The numbers
// of a state are float32 or float64, as its noise was; sums are taken in float64 where the device
// has it. LibTorch (tensor/tensor_arrays.h), Python and plain vectors (plain_arrays.h) implement
// it.
class Arrays {
 public:
  virtual ~Arrays() = default;

  // How many samples there are.
  virtual int64_t count(const Array& x) const = 0;
  // How many numbers a sample has.
  virtual int64_t sample_size(const Array& x) const = 0;
  // The machine epsilon of its type.
  virtual double epsilon(const Array& x) const = 0;
  // How much memory it takes.
  virtual int64_t byte_count(const Array& x) const = 0;

  // The samples begin ... end - 1.
  virtual Array rows(const Array& x, int64_t begin, int64_t end) const = 0;
  // The samples of these numbers, in this order.
  virtual Array take(const Array& x, const std::vector<int64_t>& samples) const = 0;
  // The samples of all parts, one part after another.
  virtual Array concatenate(const std::vector<Array>& parts) const = 0;
  // All samples, so many times over.
  virtual Array repeat(const Array& x, int64_t times) const = 0;
  // Sample by sample, that of `yes` where the mask is true and that of `no` where it is not.
  virtual Array choose(const std::vector<bool>& mask, const Array& yes, const Array& no) const = 0;

  // x in the type and on the device of another array.
  virtual Array cast(const Array& x, const Array& like) const = 0;
  // x in float64.
  virtual Array wide(const Array& x) const = 0;
  // x copied to where memory is cheap.
  virtual Array kept(const Array& x) const = 0;

  // sum_j coefficients[j] terms[j], in the type and on the device of `like`.
  virtual Array combine(const std::vector<double>& coefficients, const std::vector<Array>& terms,
                        const Array& like) const = 0;
  // The same with a coefficient for each sample, coefficients[j][sample], in the type of the first
  // term.
  virtual Array combine_per_sample(const std::vector<std::vector<double>>& coefficients,
                                   const std::vector<Array>& terms) const = 0;
  // combine() of terms that may be shorter than the longest: a short one adds to the first samples
  // of the sum alone. All are of one type.
  virtual Array combine_first_rows(const std::vector<double>& coefficients,
                                   const std::vector<Array>& terms) const;
  // x times the weights, number by number, in the type of x. Sample s of x takes row s of the
  // weights, and where they have fewer rows they begin anew.
  virtual Array weighed(const Array& x, const Array& weights) const = 0;

  // The first sample that is not finite throughout, or -1. Waits for a device.
  virtual int64_t first_not_finite(const Array& x) const = 0;
  // Whether all samples are finite. Waits for a device.
  bool is_finite(const Array& x) const { return first_not_finite(x) < 0; }

  // The root mean square of each sample, in float64.
  virtual std::vector<double> root_mean_squares(const Array& x) const = 0;
  // The root mean square of (sum_j c_j term_j) / (atol + rtol max(|left|, |right|)) for each
  // sample, in float64, as adaptive solvers measure errors.
  virtual std::vector<double> scaled_norms(const std::vector<std::vector<double>>& coefficients,
                                           const std::vector<Array>& terms, const Array& left,
                                           const Array& right, double rtol, double atol) const = 0;

  // For each sample the inner products, in float64, of its columns and, as the last of them, of a
  // residual [samples, ...]. Columns lie one after another: row c * samples + s is column c of
  // sample s.
  virtual std::vector<Matrix> grams(const Array& columns, const Array& residual) const = 0;
  // Of these the last row alone, for each sample: the residual with the columns and with itself.
  virtual Matrix products(const Array& columns, const Array& residual) const = 0;

  // The states of a run that begins at x_0 = start. Unless it is overridden each step is one
  // combine().
  virtual std::unique_ptr<GrowingStates> grow(const NsSolver& solver, const Array& start) const;

  // The bytes of an array, for other processes of a team.
  virtual std::string bytes(const Array& x) const = 0;
  // The array of these bytes, where memory is cheap.
  virtual Array from_bytes(const std::string& bytes) const = 0;
};

// The arrays that a step combines, in the order of its coefficients: x_0, u_0 ... u_i, d_0 ...
std::vector<Array> columns_of(const Array& start, const std::vector<Array>& velocities,
                              const std::vector<Array>& differences);

}  // namespace bespoke
