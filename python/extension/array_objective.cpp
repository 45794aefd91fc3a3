#include "array_objective.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace bespoke::python {

namespace {

using InnerProducts = py::array_t<double, py::array::c_style | py::array::forcecast>;

// From the inner products of all columns and, last, the residual: [samples, n + 1, n + 1].
LinearModel linear_model(const py::object& answer, double size) {
  const auto grams = answer.cast<InnerProducts>();
  const auto values = grams.unchecked<3>();
  const auto n = static_cast<size_t>(values.shape(1)) - 1;
  LinearModel model;
  model.size = size;
  for (py::ssize_t s = 0; s < values.shape(0); ++s) {
    const auto at = [&](size_t i, size_t j) {
      return values(s, static_cast<py::ssize_t>(i), static_cast<py::ssize_t>(j));
    };
    LinearModel::Sample sample{at(n, n), std::vector<double>(n), Matrix(n, n)};
    for (size_t i = 0; i < n; ++i) {
      sample.products[i] = at(n, i);
      for (size_t j = 0; j < n; ++j) sample.gram(i, j) = at(i, j);
    }
    model.samples.push_back(std::move(sample));
  }
  return model;
}

const char* name_of(Change::What what) {
  switch (what) {
    case Change::What::start_scale:
      return "start_scale";
    case Change::What::time:
      return "time";
    default:
      return "coefficient";
  }
}

py::list to_list(const std::vector<Change>& changes) {
  py::list list;
  for (const Change& change : changes) {
    list.append(py::make_tuple(change.first_evaluation(), name_of(change.what), change.column,
                               change.size));
  }
  return list;
}

}  // namespace

Error needs_gradients() {
  return usage_error(
      "this method needs gradients of the model, which callables do not have; take auto, fit or "
      "direct");
}

void Questions::refuse() { throw Error(ErrorKind::diverged, "interrupted"); }

void Questions::translate(py::error_already_set& error) {
  if (error.matches(PyExc_KeyboardInterrupt)) {
    interrupted_ = true;
    refuse();
  }
  const py::object diverged = py::module_::import("bespoke.errors").attr("DivergedError");
  if (error.matches(diverged)) {
    throw Error(ErrorKind::diverged, py::str(error.value()).cast<std::string>());
  }
}

ArrayObjective::ArrayObjective(py::object samples, Questions& questions)
    : samples_(std::move(samples)),
      questions_(questions),
      count_(samples_.attr("count").cast<int64_t>()),
      size_(samples_.attr("size").cast<double>()),
      deviation_(samples_.attr("deviation").cast<double>()),
      trajectories_(samples_.attr("known_trajectories").cast<int64_t>()) {}

template <class Question>
auto ArrayObjective::counted(Counts* counts, const Question& question) const {
  const auto spent = [&] { return samples_.attr("evaluations").cast<int64_t>(); };
  const int64_t before = spent();
  try {
    auto answer = questions_.ask(question);
    counts->forwards += spent() - before;
    return answer;
  } catch (const Error&) {
    counts->forwards += spent() - before;
    throw;
  }
}

std::vector<double> ArrayObjective::log_errors(const NsSolver& solver,
                                               const std::vector<int64_t>& subset,
                                               Counts* counts) const {
  auto errors = counted(counts, [&] {
    return samples_.attr("squared_errors")(solver, subset).cast<std::vector<double>>();
  });
  for (double& error : errors) error = std::log(std::max(error / size_, kLeastError));
  return errors;
}

py::object ArrayObjective::run(const NsSolver& solver, const std::vector<int64_t>& subset) const {
  const bool known =
      latest_run_ && latest_subset_ == subset && same_evaluations(latest_solver_, solver);
  latest_run_ = known ? samples_.attr("with_last_step")(latest_run_, solver)
                      : samples_.attr("run")(solver, subset);
  latest_solver_ = solver;
  latest_subset_ = subset;
  return latest_run_;
}

LinearModel ArrayObjective::last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                                      Counts* counts) const {
  return counted(
      counts, [&] { return linear_model(samples_.attr("last_step")(run(solver, subset)), size_); });
}

// The columns, in a bespoke.samples.Columns.
class ArrayObjective::Columns : public Linearisation {
 public:
  Columns(const ArrayObjective& objective, py::object columns)
      : objective_(objective),
        columns_(std::move(columns)),
        model_(linear_model(columns_.attr("grams"), objective.size_)) {}

  const LinearModel& model() const override { return model_; }

  LinearModel against(const NsSolver& solver, Counts* counts) const override {
    return against(objective_.counted(
        counts, [&] { return columns_.attr("against")(solver).cast<InnerProducts>(); }));
  }

  // With the inner products of the columns, and, last, the residual with another residual.
  LinearModel against(const InnerProducts& products) const {
    const auto values = products.unchecked<2>();
    LinearModel moved = model_;
    for (py::ssize_t s = 0; s < values.shape(0); ++s) {
      LinearModel::Sample& sample = moved.samples[static_cast<size_t>(s)];
      const py::ssize_t n = values.shape(1) - 1;
      for (py::ssize_t i = 0; i < n; ++i) sample.products[static_cast<size_t>(i)] = values(s, i);
      sample.squared_error = values(s, n);
    }
    return moved;
  }

  const py::object& columns() const { return columns_; }

 private:
  const ArrayObjective& objective_;
  py::object columns_;
  LinearModel model_;
};

std::vector<std::optional<LinearModel>> ArrayObjective::against(
    const NsSolver& solver, const std::vector<const Linearisation*>& all, Counts* counts) const {
  py::list several;
  for (const Linearisation* each : all)
    several.append(static_cast<const Columns*>(each)->columns());
  if (all.empty()) return {};
  std::vector<InnerProducts> products;
  try {
    products = counted(counts, [&] {
      return samples_.attr("against")(solver, several).cast<std::vector<InnerProducts>>();
    });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    return Objective::against(solver, all, counts);
  }
  std::vector<std::optional<LinearModel>> models;
  for (size_t k = 0; k < all.size(); ++k) {
    models.push_back(static_cast<const Columns*>(all[k])->against(products[k]));
  }
  return models;
}

std::unique_ptr<Linearisation> ArrayObjective::linearise(const NsSolver& solver,
                                                         const std::vector<int64_t>& subset,
                                                         const std::vector<Change>& changes,
                                                         Counts* counts) const {
  py::object columns = counted(counts, [&] {
    return py::object(samples_.attr("linearise")(run(solver, subset), solver, to_list(changes)));
  });
  return std::make_unique<Columns>(*this, std::move(columns));
}

// A fit along the true trajectories, in a bespoke.samples.Steps.
class ArrayObjective::Steps : public StepwiseRun {
 public:
  Steps(const ArrayObjective& objective, py::object steps, Counts* counts)
      : objective_(objective), steps_(std::move(steps)), counts_(counts) {}

  LinearModel noise_against(double time) override {
    return model([&] { return steps_.attr("noise_against")(time); });
  }
  void start(double scale) override {
    objective_.questions_.ask([&] { return steps_.attr("start")(scale); });
  }
  LinearModel evaluate(double time, double next_time) override {
    return model([&] { return steps_.attr("evaluate")(time, next_time); });
  }
  void advance(const std::vector<double>& coefficients) override {
    objective_.questions_.ask([&] { return steps_.attr("advance")(coefficients); });
  }

 private:
  template <class Question>
  LinearModel model(const Question& question) const {
    return linear_model(objective_.counted(counts_, question), objective_.size_);
  }

  const ArrayObjective& objective_;
  py::object steps_;
  Counts* counts_;
};

std::unique_ptr<StepwiseRun> ArrayObjective::begin_run(const SolverShape& shape,
                                                       const std::vector<int64_t>& subset,
                                                       Counts* counts) const {
  if (shape.guides_itself()) {
    throw usage_error("solvers that guide themselves are distilled by the command line alone");
  }
  py::object steps = questions_.ask([&] { return samples_.attr("begin")(subset); });
  return std::make_unique<Steps>(*this, std::move(steps), counts);
}

LossGradient ArrayObjective::loss_gradient(const NsSolver&, const std::vector<int64_t>&,
                                           Counts*) const {
  throw needs_gradients();
}

}  // namespace bespoke::python
