#include "bespoke/solver/solver_drawing.h"

#include <gtest/gtest.h>

namespace bespoke {
namespace {

NsSolver drawn_example() {
  NsSolver solver;
  solver.times = {0, 0.5, 0.5, 1};
  solver.a = {1, 1, 1};
  solver.b = {{4}, {0, 1}, {-4, 0.001, 2}};
  return solver;
}

TEST(SolverDrawing, MarksEvaluationsOnTheAxis) {
  EXPECT_EQ(draw_times(drawn_example(), 10), "noise o----2----- data\n");
}

TEST(SolverDrawing, ShadesByTheRootOfTheSize) {
  // 4 is the darkest of ten shades, 1 half of it, 2 seven tenths, and next to nothing still shows.
  EXPECT_EQ(draw_coefficients(drawn_example()), "x1   |@ \nx2   |  + \nx3   |@-. * \n");
}

}  // namespace
}  // namespace bespoke
