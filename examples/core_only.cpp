#include <bespoke/core.h>

#include <cstdio>
#include <limits>

// A solver as a program with a network of its own runs it: no tensors, no schedule, no conversions.
int main() {
  using namespace bespoke;
  const SchedulePtr path = vp_schedule();
  const NsSolver solver = make_solver("dpm++2m", {4, path, "uniform-lambda"});
  const double margin = safe_margin(std::numeric_limits<float>::epsilon());
  const LoweredSolver lowered = lower(solver, Prediction::noise, *path, margin);
  for (size_t i = 0; i < lowered.a.size(); ++i) {
    std::printf("f_%zu = noise prediction of x_%zu at t = %.4f (sigma = %.4g)\n", i, i,
                lowered.times[i], lowered.sigmas[i]);
    std::printf("x_%zu = %.6g x_0", i + 1, lowered.a[i]);
    for (size_t j = 0; j <= i; ++j) std::printf(" %+.6g f_%zu", lowered.b[i][j], j);
    std::puts("");
  }
}
