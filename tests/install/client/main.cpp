#include <bespoke/solver/catalogue.h>
#include <bespoke/solver/solver_file.h>

#include <cstdio>

int main() {
  const auto schedule = bespoke::vp_schedule();
  const auto solver = bespoke::make_solver("dpm++2m", {8, schedule, "uniform-lambda"});
  const bespoke::SolverFile file = {
      "client", solver, {bespoke::Prediction::noise, schedule, 0}, {}};
  std::puts(bespoke::to_json_text(file).c_str());
  return solver.nfe() == 8 ? 0 : 1;
}
