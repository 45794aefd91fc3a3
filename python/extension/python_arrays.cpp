#include "python_arrays.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <utility>

namespace bespoke::python {

namespace {

using NumberArray = py::array_t<double, py::array::c_style | py::array::forcecast>;

py::list objects_in(const std::vector<Array>& arrays) {
  py::list objects;
  for (const Array& array : arrays) objects.append(object_of(array));
  return objects;
}

class PythonArrays : public Arrays {
 public:
  PythonArrays(py::object arrays, std::shared_ptr<Questions> questions)
      : arrays_(std::move(arrays)), questions_(std::move(questions)) {}

  int64_t count(const Array& x) const override { return asked<int64_t>("count", object_of(x)); }
  int64_t sample_size(const Array& x) const override {
    return asked<int64_t>("sample_size", object_of(x));
  }
  double epsilon(const Array& x) const override { return asked<double>("epsilon", object_of(x)); }
  int64_t byte_count(const Array& x) const override {
    return asked<int64_t>("byte_count", object_of(x));
  }

  Array rows(const Array& x, int64_t begin, int64_t end) const override {
    return array("rows", object_of(x), begin, end);
  }
  Array take(const Array& x, const std::vector<int64_t>& samples) const override {
    return array("take", object_of(x), samples);
  }
  Array concatenate(const std::vector<Array>& parts) const override {
    return parts.size() == 1 ? parts.front() : array("concatenate", objects_in(parts));
  }
  Array repeat(const Array& x, int64_t times) const override {
    return concatenate(std::vector<Array>(static_cast<size_t>(times), x));
  }
  Array choose(const std::vector<bool>& mask, const Array& yes, const Array& no) const override {
    return array("choose", mask, object_of(yes), object_of(no));
  }

  Array cast(const Array& x, const Array& like) const override {
    return array("cast", object_of(x), object_of(like));
  }
  Array wide(const Array& x) const override { return array("wide", object_of(x)); }
  Array kept(const Array& x) const override { return array("kept", object_of(x)); }

  Array combine(const std::vector<double>& coefficients, const std::vector<Array>& terms,
                const Array& like) const override {
    return array("combine", coefficients, objects_in(terms), object_of(like));
  }
  Array combine_per_sample(const std::vector<std::vector<double>>& coefficients,
                           const std::vector<Array>& terms) const override {
    return array("combine_per_sample", coefficients, objects_in(terms));
  }

  Array weighed(const Array& x, const Array& weights) const override {
    return array("weighed", object_of(x), object_of(weights));
  }

  int64_t first_not_finite(const Array& x) const override {
    return asked<int64_t>("first_not_finite", object_of(x));
  }
  std::vector<double> root_mean_squares(const Array& x) const override {
    return asked<std::vector<double>>("root_mean_squares", object_of(x));
  }
  std::vector<double> scaled_norms(const std::vector<std::vector<double>>& coefficients,
                                   const std::vector<Array>& terms, const Array& left,
                                   const Array& right, double rtol, double atol) const override {
    return asked<std::vector<double>>("scaled_norms", coefficients, objects_in(terms),
                                      object_of(left), object_of(right), rtol, atol);
  }

  std::vector<Matrix> grams(const Array& columns, const Array& residual) const override {
    const auto found = asked<NumberArray>("grams", object_of(columns), object_of(residual));
    std::vector<Matrix> result;
    const auto size = static_cast<size_t>(found.shape(1));
    for (py::ssize_t s = 0; s < found.shape(0); ++s) {
      Matrix gram(size, size);
      const double* begin = found.data(s);
      gram.values.assign(begin, begin + size * size);
      result.push_back(std::move(gram));
    }
    return result;
  }

  Matrix products(const Array& columns, const Array& residual) const override {
    const auto found = asked<NumberArray>("products", object_of(columns), object_of(residual));
    Matrix result(static_cast<size_t>(found.shape(0)), static_cast<size_t>(found.shape(1)));
    result.values.assign(found.data(), found.data() + found.size());
    return result;
  }

  std::string bytes(const Array& x) const override {
    return asked<py::bytes>("bytes", object_of(x));
  }
  Array from_bytes(const std::string& bytes) const override {
    return array("from_bytes", py::bytes(bytes));
  }

 private:
  template <class Answer, class... Arguments>
  Answer asked(const char* name, const Arguments&... arguments) const {
    return questions_->ask(
        [&] { return arrays_.attr(name)(arguments...).template cast<Answer>(); });
  }
  template <class... Arguments>
  Array array(const char* name, const Arguments&... arguments) const {
    return array_of(asked<py::object>(name, arguments...));
  }

  py::object arrays_;
  std::shared_ptr<Questions> questions_;
};

class PythonModel : public ArrayModel {
 public:
  PythonModel(py::object field, std::shared_ptr<const Arrays> arrays,
              std::shared_ptr<Questions> questions)
      : field_(std::move(field)), arrays_(std::move(arrays)), questions_(std::move(questions)) {}

  const Arrays& arrays() const override { return *arrays_; }
  double epsilon() const override { return field_.attr("epsilon").cast<double>(); }

  Velocities predict(const Array& x, const std::vector<double>& times,
                     const std::vector<int64_t>& samples, Question question) const override {
    return questions_->ask([&] {
      if (question == Question::velocity) {
        return Velocities{array_of(field_.attr("output")(object_of(x), times, samples)), {}};
      }
      const bool both = question == Question::conditional_and_difference;
      const auto found = field_.attr("parts")(object_of(x), times, samples, both).cast<py::tuple>();
      return Velocities{array_of(found[0]), both ? array_of(found[1]) : Array()};
    });
  }

 private:
  py::object field_;
  std::shared_ptr<const Arrays> arrays_;
  std::shared_ptr<Questions> questions_;
};

class PythonTeam : public Team {
 public:
  explicit PythonTeam(py::object team)
      : team_(std::move(team)),
        rank_(team_.attr("rank").cast<int>()),
        size_(team_.attr("size").cast<int>()) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::string> exchange(const std::string& mine) override {
    return team_.attr("exchange")(py::bytes(mine)).cast<std::vector<std::string>>();
  }

 private:
  py::object team_;
  int rank_, size_;
};

}  // namespace

void Questions::refuse() { throw Error(ErrorKind::diverged, "interrupted"); }

void Questions::translate(py::error_already_set& error) {
  if (catches_ && error.matches(PyExc_KeyboardInterrupt)) {
    interrupted_ = true;
    refuse();
  }
  const py::object diverged = py::module_::import("bespoke.errors").attr("DivergedError");
  if (error.matches(diverged)) {
    throw Error(ErrorKind::diverged, py::str(error.value()).cast<std::string>());
  }
}

std::shared_ptr<const Arrays> python_arrays(py::object arrays,
                                            std::shared_ptr<Questions> questions) {
  return std::make_shared<PythonArrays>(std::move(arrays), std::move(questions));
}

std::shared_ptr<const ArrayModel> python_model(py::object field,
                                               std::shared_ptr<const Arrays> arrays,
                                               std::shared_ptr<Questions> questions) {
  return std::make_shared<PythonModel>(std::move(field), std::move(arrays), std::move(questions));
}

std::unique_ptr<Team> python_team(py::object team) {
  return std::make_unique<PythonTeam>(std::move(team));
}

}  // namespace bespoke::python
