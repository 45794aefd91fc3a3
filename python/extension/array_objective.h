#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/distill/objective.h"

namespace bespoke::python {

namespace py = pybind11;

// What asking for gradients is answered with.
Error needs_gradients();

// What went on in Python while a method of the core was running. A KeyboardInterrupt in the middle
// of a question is answered as a solver that diverged, and so are all questions after it: the
// method then ends with the best it has.
class Questions {
 public:
  bool interrupted() const { return interrupted_; }

  template <class Question>
  auto ask(const Question& question) {
    if (interrupted_) refuse();
    try {
      return question();
    } catch (py::error_already_set& error) {
      translate(error);
      throw;
    }
  }

 private:
  [[noreturn]] static void refuse();
  void translate(py::error_already_set& error);

  bool interrupted_ = false;
};

// The objective of samples that Python holds, in arrays of any library. `samples` is a
// bespoke.samples.Samples: it does all that touches arrays and answers in float64.
class ArrayObjective : public Objective {
 public:
  ArrayObjective(py::object samples, Questions& questions);

  int64_t count() const override { return count_; }
  double sample_size() const override { return size_; }
  double data_deviation() const override { return deviation_; }
  bool is_linear() const override { return true; }
  std::vector<double> log_errors(const NsSolver& solver, const std::vector<int64_t>& subset,
                                 Counts* counts) const override;
  LinearModel last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                        Counts* counts) const override;
  int64_t trajectories() const override { return trajectories_; }
  std::unique_ptr<StepwiseRun> begin_run(const SolverShape& shape,
                                         const std::vector<int64_t>& subset,
                                         Counts* counts) const override;
  std::vector<std::optional<LinearModel>> against(const NsSolver& solver,
                                                  const std::vector<const Linearisation*>& all,
                                                  Counts* counts) const override;
  std::unique_ptr<Linearisation> linearise(const NsSolver& solver,
                                           const std::vector<int64_t>& subset,
                                           const std::vector<Change>& changes,
                                           Counts* counts) const override;
  LossGradient loss_gradient(const NsSolver& solver, const std::vector<int64_t>& subset,
                             Counts* counts) const override;

 private:
  class Steps;
  class Columns;

  // Asks, and adds what it cost.
  template <class Question>
  auto counted(Counts* counts, const Question& question) const;
  py::object run(const NsSolver& solver, const std::vector<int64_t>& subset) const;

  py::object samples_;
  Questions& questions_;
  int64_t count_;
  double size_, deviation_;
  int64_t trajectories_;

  // The run last asked for: the next question is often about the same.
  mutable NsSolver latest_solver_;
  mutable std::vector<int64_t> latest_subset_;
  mutable py::object latest_run_;
};

}  // namespace bespoke::python
