#include <bespoke/bespoke.h>

#include <cstdio>

// Samples of 8 numbers, all near 1 or all near -1, on the path x_t = t x_1 + (1 - t) noise: the
// velocity of two Gaussians of deviation 0.2. Yours would call a network.
torch::Tensor velocity(const torch::Tensor& x, const torch::Tensor& t, const bespoke::Conditions&) {
  const torch::Tensor s = t.to(x.scalar_type()).unsqueeze(1);
  const torch::Tensor variance = 0.04 * s * s + (1 - s) * (1 - s);
  const torch::Tensor mean = torch::tanh(s * x.sum(1, true) / variance);
  return mean + (0.04 * s - (1 - s)) / variance * (x - s * mean);
}

int main() {
  using namespace bespoke;
  const SchedulePtr path = fm_ot_schedule();
  const ModelPtr model = function_model(Prediction::velocity, path, {8}, velocity);
  ModelDistillOptions options;
  options.nfe = 4;
  const DistillSummary result = distill(model, options);
  std::puts(result.brief_report().c_str());
  write_solver_file("mine.solver.json",
                    {"mine", {Prediction::velocity, path, {}}, {{result.solver}}});
}
