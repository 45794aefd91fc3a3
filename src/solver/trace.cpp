#include "bespoke/solver/trace.h"

#include <algorithm>
#include <stdexcept>

#include "bespoke/path/prediction.h"

namespace bespoke {

LinearForm LinearForm::basis(size_t index) {
  LinearForm form;
  form.coefficients_.assign(index + 1, 0);
  form.coefficients_[index] = 1;
  return form;
}

double LinearForm::operator[](size_t index) const {
  return index < coefficients_.size() ? coefficients_[index] : 0;
}

LinearForm& LinearForm::operator+=(const LinearForm& other) {
  coefficients_.resize(std::max(size(), other.size()), 0);
  for (size_t i = 0; i < other.size(); ++i) coefficients_[i] += other.coefficients_[i];
  return *this;
}

LinearForm& LinearForm::operator*=(double factor) {
  for (double& c : coefficients_) c *= factor;
  return *this;
}

LinearForm operator+(LinearForm left, const LinearForm& right) { return left += right; }
LinearForm operator-(LinearForm left, const LinearForm& right) { return left += -1.0 * right; }
LinearForm operator*(double factor, LinearForm form) { return form *= factor; }

Evaluation Trace::evaluate(double t, const LinearForm& x) {
  const size_t index = solver_.times.size();
  if (index == 0) {
    if (x.size() != 1 || x[0] != 1) throw std::logic_error("the first evaluation must be at x_0");
  } else {
    record(x);
  }
  solver_.times.push_back(t);

  Evaluation result;
  result.u = LinearForm::basis(1 + index);
  if (schedule_ != nullptr) {
    const SchedulePoint point = schedule_->at(t);
    const Affine<double> data = data_from(Prediction::velocity, point);
    const Affine<double> noise = noise_from(Prediction::velocity, point);
    result.data = data.state * x + data.output * result.u;
    result.noise = noise.state * x + noise.output * result.u;
  }
  return result;
}

void Trace::record(const LinearForm& x) {
  const size_t evaluations = solver_.times.size();
  if (x.size() > evaluations + 1) throw std::logic_error("a state depends on a later evaluation");
  std::vector<double> row(evaluations);
  for (size_t j = 0; j < evaluations; ++j) row[j] = x[1 + j];
  solver_.a.push_back(x[0]);
  solver_.b.push_back(row);
}

NsSolver Trace::finish(double t, const LinearForm& x) {
  record(x);
  solver_.times.push_back(t);
  solver_.validate();
  return solver_;
}

}  // namespace bespoke
