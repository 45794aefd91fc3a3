#include "bespoke/solver/trace.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace bespoke {
namespace {

TEST(Trace, ReadsOffWhatAMethodDid) {
  Trace trace;
  LinearForm x = trace.start();
  const LinearForm u0 = trace.evaluate(0.0, x).u;
  x = x + 0.5 * u0;
  const LinearForm u1 = trace.evaluate(0.5, x).u;
  x = x + 0.25 * (u0 + u1);
  const NsSolver solver = trace.finish(1.0, x);
  EXPECT_EQ(solver.times, (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(solver.a, (std::vector<double>{1, 1}));
  EXPECT_EQ(solver.b, (std::vector<std::vector<double>>{{0.5}, {0.75, 0.25}}));
}

TEST(Trace, DataAndNoiseFormsRebuildTheState) {
  const SchedulePtr schedule = vp_schedule();
  Trace trace(schedule.get());
  const Evaluation evaluation = trace.evaluate(0.3, trace.start());
  const LinearForm x =
      schedule->alpha(0.3) * evaluation.data + schedule->sigma(0.3) * evaluation.noise;
  EXPECT_NEAR(x[0], 1, 1e-14);
  EXPECT_NEAR(x[1], 0, 1e-14);
}

TEST(Trace, TheFirstEvaluationMustBeAtTheStart) {
  Trace trace;
  EXPECT_THROW(trace.evaluate(0, 2.0 * trace.start()), std::logic_error);
}

}  // namespace
}  // namespace bespoke
