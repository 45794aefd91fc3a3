#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "bespoke/base/text.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/grid.h"
#include "catalogue_names.h"
#include "plain_field.h"

namespace bespoke {

using namespace detail;
namespace {

using testing::Array;

struct Span {
  double start, end;
};

// How a method's order is made visible: the span keeps lambda finite, the grid is graded at the
// start for multistep methods, whose first steps are of low order on a uniform one.
struct Experiment {
  const CatalogueEntry& entry;
  SchedulePtr schedule;
  Span span;

  bool one_step() const { return entry.family.find("Runge-Kutta") != std::string::npos; }

  std::string grid(int steps) const {
    // EDM's method runs to t = 1 with a last Euler step; that step's share must vanish.
    if (entry.name == "edm-heun") return "karras:sigma_min=1e-5";
    std::string text = "custom:";
    for (int i = 0; i <= steps; ++i) {
      const double position = static_cast<double>(i) / steps;
      const double graded = one_step() ? position : position * position;
      text += (i > 0 ? "," : "") + exact(span.start + (span.end - span.start) * graded);
    }
    return text;
  }

  // The most evaluations that make this many steps. A three-stage DPM-Solver then ends with one
  // step of order 2, whose local error is of third order; fewer would end it with one of order 1.
  int evaluations(int steps) const {
    int nfe = steps * entry.evaluations_per_step;
    while (entry.steps(nfe) != steps) --nfe;
    return nfe;
  }
};

double slope_of(const std::vector<double>& errors) {
  return std::log2(errors.front() / errors.back()) / static_cast<double>(errors.size() - 1);
}

// The order of convergence measured as the number of steps doubles.
double measured_order(const Experiment& experiment) {
  const testing::PlainMixture mixture = testing::smooth_mixture();
  const auto field = testing::mixture_field(mixture, experiment.schedule);
  const Array x0 = testing::starting_noise(*experiment.schedule, 4, mixture.dimension);
  const std::vector<int> counts =
      experiment.one_step() ? std::vector<int>{32, 64, 128} : std::vector<int>{64, 128, 256};
  const auto grid = make_grid(experiment.grid(counts[0]), counts[0], *experiment.schedule);
  const Array expected =
      testing::exact_flow(mixture, *experiment.schedule, x0, grid.front(), grid.back());
  std::vector<double> errors;
  for (const int steps : counts) {
    const NsSolver solver =
        make_solver(experiment.entry,
                    {experiment.evaluations(steps), experiment.schedule, experiment.grid(steps)});
    // Both from the state x0 at the grid's start.
    const Array noise = x0 / solver.start_scale;
    errors.push_back(testing::relative_error(testing::run(solver, field, noise), expected));
  }
  return slope_of(errors);
}

class OrderTest : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_declared_order(const std::string& schedule, Span span) {
    const CatalogueEntry& entry = find_solver(GetParam());
    const double order = measured_order({entry, make_schedule(schedule), span});
    EXPECT_GT(order, entry.order - 0.3) << entry.name << " on " << schedule;
    EXPECT_LT(order, entry.order + 0.4) << entry.name << " on " << schedule;
  }
};

TEST_P(OrderTest, ConvergesAtTheDeclaredOrder) {
  expect_declared_order("fm-ot", {0.2, 0.8});
  expect_declared_order("vp", {0.4, 0.8});
}

INSTANTIATE_TEST_SUITE_P(Catalogue, OrderTest, ::testing::ValuesIn(testing::catalogue_names()),
                         testing::catalogue_test_name);

}  // namespace
}  // namespace bespoke
