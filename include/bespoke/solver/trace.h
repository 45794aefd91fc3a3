#pragma once

#include <vector>

#include "bespoke/path/schedule.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// A linear combination of x_0, u_0, u_1, ...: what the state of any fixed-step solver is.
class LinearForm {
 public:
  LinearForm() = default;
  static LinearForm basis(size_t index);  // 0 is x_0, 1 + j is u_j

  double operator[](size_t index) const;
  size_t size() const { return coefficients_.size(); }

  LinearForm& operator+=(const LinearForm& other);
  LinearForm& operator*=(double factor);

 private:
  std::vector<double> coefficients_;
};

LinearForm operator+(LinearForm left, const LinearForm& right);
LinearForm operator-(LinearForm left, const LinearForm& right);
LinearForm operator*(double factor, LinearForm form);

// What an evaluation at (t, x) yields: the velocity, and the data and noise predictions that
// correspond to it, as linear forms.
struct Evaluation {
  LinearForm u, data, noise;
};

// Runs a solver on symbols instead of samples. A method is written here as its paper writes it,
// on x, D, E and u, and what it did is read off as an NsSolver: the taxonomy theorem at work.
class Trace {
 public:
  // With a schedule, evaluations carry data and noise predictions; without, velocity only.
  explicit Trace(const Schedule* schedule = nullptr) : schedule_(schedule) {}

  LinearForm start() const { return LinearForm::basis(0); }
  Evaluation evaluate(double t, const LinearForm& x);
  NsSolver finish(double t, const LinearForm& x);

 private:
  void record(const LinearForm& x);

  const Schedule* schedule_;
  NsSolver solver_;
};

}  // namespace bespoke
