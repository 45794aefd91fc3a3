#include "bespoke/run/plain_arrays.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/packing.h"

namespace bespoke {

namespace {

const PlainArray& plain(const Array& array) { return array.as<PlainArray>(); }

size_t row_size(const PlainArray& x) { return static_cast<size_t>(x.sample_size()); }

const double* row_of(const PlainArray& x, int64_t row) {
  return x.values.data() + static_cast<size_t>(row) * row_size(x);
}

void append_row(PlainArray& x, const double* row, size_t size) {
  x.values.insert(x.values.end(), row, row + size);
  ++x.count;
}

double dot(const double* left, const double* right, size_t size) {
  double sum = 0;
  for (size_t i = 0; i < size; ++i) sum += left[i] * right[i];
  return sum;
}

class PlainArrays : public Arrays {
 public:
  int64_t count(const Array& x) const override { return plain(x).count; }
  int64_t sample_size(const Array& x) const override { return plain(x).sample_size(); }
  double epsilon(const Array&) const override { return std::numeric_limits<double>::epsilon(); }
  int64_t byte_count(const Array& x) const override {
    return static_cast<int64_t>(plain(x).values.size() * sizeof(double));
  }

  Array rows(const Array& x, int64_t begin, int64_t end) const override {
    std::vector<int64_t> rows;
    for (int64_t row = begin; row < end; ++row) rows.push_back(row);
    return take(x, rows);
  }

  Array take(const Array& x, const std::vector<int64_t>& samples) const override {
    PlainArray result;
    for (const int64_t row : samples) append_row(result, row_of(plain(x), row), row_size(plain(x)));
    return Array::of(std::move(result));
  }

  Array concatenate(const std::vector<Array>& parts) const override {
    PlainArray result;
    for (const Array& part : parts) {
      result.values.insert(result.values.end(), plain(part).values.begin(),
                           plain(part).values.end());
      result.count += plain(part).count;
    }
    return Array::of(std::move(result));
  }

  Array repeat(const Array& x, int64_t times) const override {
    return concatenate(std::vector<Array>(static_cast<size_t>(times), x));
  }

  Array choose(const std::vector<bool>& mask, const Array& yes, const Array& no) const override {
    PlainArray result;
    for (int64_t row = 0; row < plain(yes).count; ++row) {
      const PlainArray& from = plain(mask[static_cast<size_t>(row)] ? yes : no);
      append_row(result, row_of(from, row), row_size(from));
    }
    return Array::of(std::move(result));
  }

  Array cast(const Array& x, const Array&) const override { return x; }
  Array wide(const Array& x) const override { return x; }
  Array kept(const Array& x) const override { return x; }

  Array combine(const std::vector<double>& coefficients, const std::vector<Array>& terms,
                const Array&) const override {
    return summed(terms, [&](size_t j, int64_t) { return coefficients[j]; });
  }

  Array combine_per_sample(const std::vector<std::vector<double>>& coefficients,
                           const std::vector<Array>& terms) const override {
    return summed(terms,
                  [&](size_t j, int64_t row) { return coefficients[j][static_cast<size_t>(row)]; });
  }

  Array weighed(const Array& x, const Array& weights) const override {
    PlainArray result = plain(x);
    const auto& factors = plain(weights).values;
    for (size_t i = 0; i < result.values.size(); ++i) {
      result.values[i] *= factors[i % factors.size()];
    }
    return Array::of(std::move(result));
  }

  int64_t first_not_finite(const Array& x) const override {
    const auto& values = plain(x).values;
    const auto bad = std::find_if(values.begin(), values.end(),
                                  [](double value) { return !std::isfinite(value); });
    return bad == values.end() ? -1 : (bad - values.begin()) / plain(x).sample_size();
  }

  std::vector<double> root_mean_squares(const Array& x) const override {
    std::vector<double> result;
    const size_t size = row_size(plain(x));
    for (int64_t row = 0; row < plain(x).count; ++row) {
      const double* values = row_of(plain(x), row);
      result.push_back(std::sqrt(dot(values, values, size) / static_cast<double>(size)));
    }
    return result;
  }

  std::vector<double> scaled_norms(const std::vector<std::vector<double>>& coefficients,
                                   const std::vector<Array>& terms, const Array& left,
                                   const Array& right, double rtol, double atol) const override {
    PlainArray ratio = plain(combine_per_sample(coefficients, terms));
    for (size_t i = 0; i < ratio.values.size(); ++i) {
      ratio.values[i] /=
          atol + rtol * std::max(std::abs(plain(left).values[i]), std::abs(plain(right).values[i]));
    }
    return root_mean_squares(Array::of(std::move(ratio)));
  }

  std::vector<Matrix> grams(const Array& columns, const Array& residual) const override {
    std::vector<Matrix> result;
    const int64_t samples = plain(residual).count;
    for (int64_t s = 0; s < samples; ++s) {
      std::vector<const double*> all = columns_of_sample(columns, s, samples);
      all.push_back(row_of(plain(residual), s));
      Matrix gram(all.size(), all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        for (size_t j = 0; j <= i; ++j) {
          gram(i, j) = gram(j, i) = dot(all[i], all[j], row_size(plain(residual)));
        }
      }
      result.push_back(std::move(gram));
    }
    return result;
  }

  Matrix products(const Array& columns, const Array& residual) const override {
    const int64_t samples = plain(residual).count;
    Matrix result(static_cast<size_t>(samples),
                  static_cast<size_t>(plain(columns).count / samples) + 1);
    for (int64_t s = 0; s < samples; ++s) {
      const double* r = row_of(plain(residual), s);
      std::vector<const double*> all = columns_of_sample(columns, s, samples);
      all.push_back(r);
      for (size_t j = 0; j < all.size(); ++j) {
        result(static_cast<size_t>(s), j) = dot(all[j], r, row_size(plain(residual)));
      }
    }
    return result;
  }

  std::string bytes(const Array& x) const override {
    return Packer().add(plain(x).count).add(plain(x).values).bytes();
  }

  Array from_bytes(const std::string& bytes) const override {
    Unpacker unpacker(bytes);
    PlainArray x;
    x.count = unpacker.integer();
    x.values = unpacker.numbers();
    return Array::of(std::move(x));
  }

 private:
  // coefficient(term, row)
  template <class Coefficient>
  static Array summed(const std::vector<Array>& terms, const Coefficient& coefficient) {
    PlainArray sum{std::vector<double>(plain(terms.front()).values.size(), 0),
                   plain(terms.front()).count};
    const size_t size = row_size(sum);
    for (size_t j = 0; j < terms.size(); ++j) {
      for (size_t i = 0; i < sum.values.size(); ++i) {
        sum.values[i] += coefficient(j, static_cast<int64_t>(i / size)) * plain(terms[j]).values[i];
      }
    }
    return Array::of(std::move(sum));
  }

  static std::vector<const double*> columns_of_sample(const Array& columns, int64_t sample,
                                                      int64_t samples) {
    std::vector<const double*> result;
    for (int64_t row = sample; row < plain(columns).count; row += samples) {
      result.push_back(row_of(plain(columns), row));
    }
    return result;
  }
};

class FunctionModel : public ArrayModel {
 public:
  explicit FunctionModel(PlainFunction function) : function_(std::move(function)) {}

  const Arrays& arrays() const override { return *plain_arrays(); }
  double epsilon() const override { return std::numeric_limits<double>::epsilon(); }

  Velocities predict(const Array& x, const std::vector<double>& times,
                     const std::vector<int64_t>& samples, Question question) const override {
    if (question != Question::velocity) {
      throw usage_error(
          "this model is a plain function, which built-in guidance cannot take apart");
    }
    const PlainArray& state = plain(x);
    const std::vector<double> each =
        times.size() == 1 ? std::vector<double>(static_cast<size_t>(state.count), times.front())
                          : times;
    std::vector<double> values = function_(each, state, samples);
    if (values.size() != state.values.size()) {
      throw bad_input("the model returned {} numbers for states of {}", values.size(),
                      state.values.size());
    }
    return {Array::of(PlainArray{std::move(values), state.count}), {}};
  }

 private:
  PlainFunction function_;
};

}  // namespace

std::shared_ptr<const Arrays> plain_arrays() {
  static const auto arrays = std::make_shared<PlainArrays>();
  return arrays;
}

std::shared_ptr<SampledField> plain_field(PlainFunction model, Prediction prediction,
                                          SchedulePtr schedule) {
  return model_field(std::make_shared<FunctionModel>(std::move(model)), prediction,
                     std::move(schedule));
}

}  // namespace bespoke
