#pragma once

#include <vector>

#include "bespoke/path/schedule.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// A linear combination of x_0, u_0, u_1, ...: what the state of any fixed-step solver is.
class LinearForm {
 public:
  // The form that is 0.
  LinearForm() = default;
  // One of the terms alone: 0 is x_0, 1 + j is u_j.
  static LinearForm basis(size_t index);

  // The coefficient of a term, numbered as in `basis`.
  double operator[](size_t index) const;
  // How many terms have a coefficient; those behind them have 0.
  size_t size() const { return coefficients_.size(); }

  // Adds another form.
  LinearForm& operator+=(const LinearForm& other);
  // Multiplies every coefficient.
  LinearForm& operator*=(double factor);

 private:
  std::vector<double> coefficients_;
};

// The sum of two forms.
LinearForm operator+(LinearForm left, const LinearForm& right);
// The difference of two forms.
LinearForm operator-(LinearForm left, const LinearForm& right);
// A multiple of a form.
LinearForm operator*(double factor, LinearForm form);

// What an evaluation at (t, x) yields: the velocity, and the data and noise predictions that
// correspond to it, as linear forms.
struct Evaluation {
  LinearForm u;      // the velocity
  LinearForm data;   // the data prediction D; needs a schedule
  LinearForm noise;  // the noise prediction E; needs a schedule
};

// Runs a solver on symbols instead of samples. A method is written here as its paper writes it,
// on x, D, E and u, and what it did is read off as an NsSolver: the taxonomy theorem at work.
class Trace {
 public:
  // With a schedule, evaluations carry data and noise predictions; without, velocity only.
  explicit Trace(const Schedule* schedule = nullptr) : schedule_(schedule) {}

  // The state that the method begins with, x_0.
  LinearForm start() const { return LinearForm::basis(0); }
  // Evaluates the field at a time and a state, and records both.
  Evaluation evaluate(double t, const LinearForm& x);
  // The solver that was recorded, which ends at a time in a state.
  NsSolver finish(double t, const LinearForm& x);

 private:
  void record(const LinearForm& x);

  const Schedule* schedule_;
  NsSolver solver_;
};

}  // namespace bespoke
