#include "bespoke/solver/dormand_prince.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

using Rows = std::vector<std::vector<double>>;  // [sample][dimension]
using Velocity = std::function<std::vector<double>(double t, const std::vector<double>& x)>;

// x, u at the beginning of an accepted step, x in its middle, x, u at its end.
struct PlainStep {
  double begin, end;
  Rows parts;
};

struct PlainOutcome {
  Rows x;
  std::vector<int64_t> evaluations, calls;
  std::vector<PlainStep> steps;  // of the sample that is first among the active
};

// The whole driver on plain vectors: the few array operations the class asks for.
class PlainRun {
 public:
  PlainRun(std::vector<Velocity> fields, Rows x0, const DormandPrinceOptions& options)
      : fields_(std::move(fields)),
        tolerances_(options.tolerances),
        control_(static_cast<int64_t>(x0.size()), options),
        x_(std::move(x0)),
        outcome_{x_, {}, std::vector<int64_t>(x_.size(), 0), {}} {}

  PlainOutcome run() {
    begin();
    double progress = 0;
    while (!control_.done()) {
      attempt();
      retire();
      EXPECT_GE(control_.progress(), progress);
      progress = control_.progress();
    }
    EXPECT_EQ(progress, 1);
    outcome_.evaluations = control_.evaluations();
    return outcome_;
  }

 private:
  Rows evaluate(const std::vector<double>& t, const Rows& x) {
    Rows u;
    for (size_t k = 0; k < x.size(); ++k) {
      const auto number = static_cast<size_t>(control_.active()[k]);
      ++outcome_.calls[number];
      u.push_back(fields_[number](t[k], x[k]));
    }
    return u;
  }

  Rows combined(const Combination& sum) const {
    Rows result(x_.size(), std::vector<double>(x_[0].size(), 0));
    for (size_t i = 0; i < sum.terms.size(); ++i) {
      const Rows& term = sum.terms[i] == 0 ? x_ : slopes_[sum.terms[i] - 1];
      for (size_t k = 0; k < x_.size(); ++k) {
        for (size_t d = 0; d < x_[k].size(); ++d) {
          result[k][d] += sum.coefficients[i][k] * term[k][d];
        }
      }
    }
    return result;
  }

  std::vector<double> norms(const Rows& values, const Rows& y) const {
    std::vector<double> norms;
    for (size_t k = 0; k < x_.size(); ++k) {
      double total = 0;
      for (size_t d = 0; d < x_[k].size(); ++d) {
        const double size = std::max(std::abs(x_[k][d]), std::abs(y[k][d]));
        total += std::pow(values[k][d] / (tolerances_.atol + tolerances_.rtol * size), 2);
      }
      norms.push_back(std::sqrt(total / static_cast<double>(x_[k].size())));
    }
    return norms;
  }

  void begin() {
    slopes_ = {evaluate(control_.times(), x_)};
    control_.guess(norms(x_, x_), norms(slopes_[0], x_));
    Rows change = evaluate(control_.guess_times(), combined(control_.guess_state()));
    for (size_t k = 0; k < x_.size(); ++k) {
      for (size_t d = 0; d < x_[k].size(); ++d) change[k][d] -= slopes_[0][k][d];
    }
    control_.begin(norms(change, x_));
  }

  void attempt() {
    Rows y;
    for (size_t stage = 1; stage < DormandPrince::kStages; ++stage) {
      y = combined(control_.stage_state(stage));
      slopes_.push_back(evaluate(control_.stage_times(stage), y));
    }
    const double begin = control_.times()[0];
    const Rows middle = combined(control_.middle());
    const auto accepted = control_.decide(norms(combined(control_.error()), y));
    if (accepted[0]) {
      outcome_.steps.push_back(
          {begin, control_.times()[0], {x_[0], slopes_[0][0], middle[0], y[0], slopes_.back()[0]}});
    }
    for (size_t k = 0; k < x_.size(); ++k) {
      if (!accepted[k]) continue;
      x_[k] = y[k];
      slopes_[0][k] = slopes_.back()[k];
    }
    slopes_.resize(1);
  }

  void retire() {
    for (const int64_t k : control_.arrived()) {
      outcome_.x[static_cast<size_t>(control_.active()[static_cast<size_t>(k)])] =
          x_[static_cast<size_t>(k)];
    }
    Rows x, slope;
    for (const int64_t k : control_.retire()) {
      x.push_back(x_[static_cast<size_t>(k)]);
      slope.push_back(slopes_[0][static_cast<size_t>(k)]);
    }
    x_ = x;
    slopes_ = {slope};
  }

  std::vector<Velocity> fields_;
  Tolerances tolerances_;
  DormandPrince control_;
  Rows x_;
  std::vector<Rows> slopes_;
  PlainOutcome outcome_;
};

DormandPrinceOptions within(double tolerance) {
  DormandPrinceOptions options;
  options.tolerances = {tolerance, tolerance};
  return options;
}

PlainOutcome run_plainly(const Velocity& field, const std::vector<double>& x0, double tolerance) {
  return PlainRun({field}, {x0}, within(tolerance)).run();
}

// x' = rate x.
Velocity growing(double rate) {
  return [rate](double, const std::vector<double>& x) {
    std::vector<double> u = x;
    for (double& value : u) value *= rate;
    return u;
  };
}

// A circle of this frequency.
Velocity turning(double w) {
  return [w](double, const std::vector<double>& x) {
    return std::vector<double>{-w * x[1], w * x[0]};
  };
}

double largest_error(const PlainOutcome& outcome, size_t k, const std::vector<double>& exact) {
  double largest = 0;
  for (size_t d = 0; d < exact.size(); ++d) {
    largest = std::max(largest, std::abs(outcome.x[k][d] - exact[d]));
  }
  return largest;
}

TEST(DormandPrince, MeetsItsToleranceOnALinearEquation) {
  for (const double tolerance : {1e-3, 1e-5, 1e-7, 1e-9, 1e-11}) {
    const auto growth = run_plainly(growing(1), {1, -2}, tolerance);
    EXPECT_LT(largest_error(growth, 0, {std::exp(1), -2 * std::exp(1)}), 5 * tolerance);
    const auto circle = run_plainly(turning(12), {1, 0}, tolerance);
    EXPECT_LT(largest_error(circle, 0, {std::cos(12), std::sin(12)}), 10 * tolerance);
  }
}

TEST(DormandPrince, MeetsItsToleranceWhereStabilityLimitsTheStep) {
  // x' = -300 (x - cos t) - sin t: x = cos t + (x_0 - 1) e^(-300 t). An explicit method of this
  // order needs steps of about 3.3 / 300, so at least some 90 of them, whatever the tolerance.
  const Velocity stiff = [](double t, const std::vector<double>& x) {
    return std::vector<double>{-300 * (x[0] - std::cos(t)) - std::sin(t)};
  };
  for (const double tolerance : {1e-3, 1e-6, 1e-9}) {
    const auto result = run_plainly(stiff, {2}, tolerance);
    EXPECT_LT(largest_error(result, 0, {std::cos(1)}), tolerance);
    EXPECT_GT(result.evaluations[0], 6 * 90);
    EXPECT_LT(result.evaluations[0], 6 * 600);
  }
}

TEST(DormandPrince, ErrorFallsAtFifthOrderWithTheEvaluations) {
  const auto error = [](const PlainOutcome& r) {
    return largest_error(r, 0, {std::cos(12), std::sin(12)});
  };
  const auto coarse = run_plainly(turning(12), {1, 0}, 1e-5),
             fine = run_plainly(turning(12), {1, 0}, 1e-10);
  const double cost = static_cast<double>(fine.evaluations[0]) / coarse.evaluations[0];
  EXPECT_NEAR(std::log(error(coarse) / error(fine)) / std::log(cost), 5, 0.5);
  EXPECT_NEAR(std::log10(cost), 1, 0.15);
}

TEST(DormandPrince, ExpectsStepsToGoOnShrinking) {
  // Turning with frequency 2 / (1.01 - t): a suitable step is a fixed part of what is left, so each
  // is shorter than the one before by the same factor.
  const Velocity faster = [](double t, const std::vector<double>& x) {
    return turning(2 / (1.01 - t))(t, x);
  };
  const double angle = 2 * std::log(1.01 / 0.01);
  for (const double tolerance : {1e-3, 1e-5, 1e-7}) {
    const auto result = run_plainly(faster, {1, 0}, tolerance);
    EXPECT_LT(largest_error(result, 0, {std::cos(angle), std::sin(angle)}), 10 * tolerance);
    const double attempts = static_cast<double>(result.evaluations[0] - 2) / 6;
    const double rejected = attempts - static_cast<double>(result.steps.size());
    EXPECT_LT(rejected / attempts, 0.2) << tolerance;
  }
}

TEST(DormandPrince, ASampleDoesNotDependOnTheOthers) {
  const std::vector<Velocity> fields = {turning(1), turning(40), growing(-3), turning(7)};
  const Rows x0 = {{1, 0}, {0, 2}, {3, 1}, {-1, 1}};
  const auto together = PlainRun(fields, x0, within(1e-7)).run();
  for (size_t k = 0; k < fields.size(); ++k) {
    const auto alone = PlainRun({fields[k]}, {x0[k]}, within(1e-7)).run();
    EXPECT_EQ(together.x[k], alone.x[0]) << k;
    EXPECT_EQ(together.evaluations[k], alone.evaluations[0]) << k;
    EXPECT_EQ(together.evaluations[k], together.calls[k]) << k;
  }
  EXPECT_GT(together.evaluations[1], 5 * together.evaluations[0]);
}

TEST(DormandPrince, CountsTwoEvaluationsToBeginAndSixAnAttempt) {
  const auto result = run_plainly(growing(1), {1}, 1e-6);
  EXPECT_EQ((result.evaluations[0] - 2) % 6, 0);
  EXPECT_LT(result.evaluations[0], 80);
  // Nothing moves: the first step is tiny, each next three times as long, none is rejected.
  const auto still = run_plainly(growing(0), {1}, 1e-6);
  EXPECT_EQ(still.x[0][0], 1);
  EXPECT_LT(still.evaluations[0], 2 + 6 * 16);
}

TEST(DormandPrince, EndsExactlyAtTheEndAndMayGoNowhere) {
  DormandPrinceOptions options = within(1e-8);
  options.start = 0.3;
  options.end = 0.7;
  double last = 0;
  const Velocity field = [&](double t, const std::vector<double>& x) {
    last = std::max(last, t);
    return x;
  };
  const auto result = PlainRun({field}, {{1}}, options).run();
  EXPECT_EQ(last, 0.7);
  EXPECT_NEAR(result.x[0][0], std::exp(0.4), 1e-8);
  options.start = options.end;
  EXPECT_EQ(PlainRun({field}, {{1}}, options).run().x[0][0], 1);
  EXPECT_TRUE(DormandPrince(0, options).done());
}

std::vector<double> weighted(const PlainStep& step, const std::array<double, 5>& weights) {
  std::vector<double> sum(step.parts[0].size(), 0);
  for (size_t j = 0; j < weights.size(); ++j) {
    for (size_t d = 0; d < sum.size(); ++d) sum[d] += weights[j] * step.parts[j][d];
  }
  return sum;
}

TEST(DormandPrince, DenseOutputIsExactForQuarticsAndAtTheEnds) {
  const Velocity quartic = [](double t, const std::vector<double>&) {
    return std::vector<double>{5 * t * t * t - 2 * t, 1};
  };
  const auto result = run_plainly(quartic, {0.5, 0}, 1e-3);
  for (const PlainStep& step : result.steps) {
    for (const double fraction : {0.0, 0.1, 0.5, 0.8, 1.0}) {
      const double size = step.end - step.begin, t = step.begin + fraction * size;
      const DenseWeights weights = dense_weights(fraction, size);
      const auto x = weighted(step, weights.state), u = weighted(step, weights.slope);
      EXPECT_NEAR(x[0], 0.5 + 1.25 * std::pow(t, 4) - t * t, 1e-14);
      EXPECT_NEAR(x[1], t, 1e-14);
      EXPECT_NEAR(u[0], 5 * t * t * t - 2 * t, 1e-12);
      EXPECT_NEAR(u[1], 1, 1e-12);
    }
  }
  EXPECT_EQ(dense_weights(0, 0.3).state, (std::array<double, 5>{1, 0, 0, 0, 0}));
  EXPECT_EQ(dense_weights(1, 0.3).state, (std::array<double, 5>{0, 0, 0, 1, 0}));
  EXPECT_EQ(dense_weights(0.5, 0.3).state, (std::array<double, 5>{0, 0, 1, 0, 0}));
  EXPECT_EQ(dense_weights(0, 0.3).slope, (std::array<double, 5>{0, 1, 0, 0, 0}));
  EXPECT_EQ(dense_weights(1, 0.3).slope, (std::array<double, 5>{0, 0, 0, 0, 1}));
}

TEST(DormandPrince, DenseOutputMeetsTheTolerance) {
  for (const double tolerance : {1e-3, 1e-5, 1e-7, 1e-9}) {
    const auto result = run_plainly(turning(12), {1, 0}, tolerance);
    double state_error = 0, slope_error = 0;
    for (const PlainStep& step : result.steps) {
      for (double fraction = 0.05; fraction < 1; fraction += 0.1) {
        const double size = step.end - step.begin, t = step.begin + fraction * size;
        const DenseWeights weights = dense_weights(fraction, size);
        state_error =
            std::max(state_error, std::abs(weighted(step, weights.state)[0] - std::cos(12 * t)));
        slope_error = std::max(slope_error,
                               std::abs(weighted(step, weights.slope)[0] + 12 * std::sin(12 * t)));
      }
    }
    EXPECT_LT(state_error, 10 * tolerance);
    EXPECT_LT(slope_error, 200 * std::pow(tolerance, 0.8));
  }
}

std::string message_of(const std::function<void()>& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "";
}

TEST(DormandPrince, SaysWhereItGivesUp) {
  const Velocity broken = [](double t, const std::vector<double>& x) {
    return std::vector<double>{t > 0.5 ? std::nan("") : x[0]};
  };
  DormandPrinceOptions options = within(1e-6);
  options.first_sample = 40;
  const auto stuck = [&] { PlainRun({growing(1), broken}, {{1}, {1}}, options).run(); };
  const std::string message = message_of(stuck, ErrorKind::diverged);
  EXPECT_EQ(message.find("the reference cannot meet tolerance 1e-06 at t = 0.4999"), 0u) << message;
  EXPECT_NE(message.find(" for sample 41 after "), std::string::npos) << message;
  options.most_evaluations = 100;
  const auto spent = [&] { PlainRun({turning(50)}, {{1, 0}}, options).run(); };
  EXPECT_NE(message_of(spent, ErrorKind::diverged).find("after 104 evaluations; loosen"),
            std::string::npos);
}

TEST(DormandPrince, GoesOnWithoutASampleWhereThatIsTaken) {
  const Velocity broken = [](double t, const std::vector<double>& x) {
    return std::vector<double>{t > 0.5 ? std::nan("") : x[0]};
  };
  DormandPrinceOptions options = within(1e-6);
  options.first_sample = 40;
  std::vector<int64_t> told;
  options.on_given_up = [&](int64_t sample, const std::string& why) {
    told.push_back(sample);
    EXPECT_NE(why.find(" for sample 41 after "), std::string::npos) << why;
  };
  const auto result = PlainRun({growing(1), broken, growing(1)}, {{1}, {1}, {1}}, options).run();
  EXPECT_EQ(told, std::vector<int64_t>{41});
  EXPECT_NEAR(result.x[0][0], std::exp(1), 1e-4);
  EXPECT_EQ(result.x[0][0], result.x[2][0]);
}

TEST(DormandPrince, RefusesWhatMakesNoSense) {
  EXPECT_EQ(message_of([] { DormandPrince(1, within(0)); }, ErrorKind::usage),
            "tolerances must be positive, found rtol = 0, atol = 0");
  EXPECT_NE(message_of([] { DormandPrince(1, within(INFINITY)); }, ErrorKind::usage), "");
  DormandPrinceOptions backwards;
  backwards.start = 2;
  EXPECT_NE(message_of([&] { DormandPrince(1, backwards); }, ErrorKind::usage), "");
  EXPECT_THROW(DormandPrince(2, {}).guess({1}, {1}), std::logic_error);
}

}  // namespace
}  // namespace bespoke
