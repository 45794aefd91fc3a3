#include <bespoke/core.h>

#include <cmath>
#include <cstdio>

// The core alone, without LibTorch: a solver of 4 evaluations for a model that is a function of
// plain numbers, and the same solver as a program with a network of its own runs it.

// Samples of 2 numbers, both near 1 or both near -1, on the path x_t = t x_1 + (1 - t) noise: the
// velocity of two Gaussians of deviation 0.2. Yours would call a network.
std::vector<double> velocity(const std::vector<double>& times, const bespoke::PlainArray& x,
                             const std::vector<int64_t>& /*samples*/) {
  std::vector<double> result;
  for (size_t k = 0; k < times.size(); ++k) {
    const double t = times[k], variance = 0.04 * t * t + (1 - t) * (1 - t);
    const double* state = &x.values[2 * k];
    const double mean = std::tanh(t * (state[0] + state[1]) / variance);
    for (int i = 0; i < 2; ++i) {
      result.push_back(mean + (0.04 * t - (1 - t)) / variance * (state[i] - t * mean));
    }
  }
  return result;
}

int main() {
  using namespace bespoke;
  const auto field = plain_field(velocity);

  // 64 samples of the model itself, from standard normal noise, with their trajectories.
  PlainArray noise{std::vector<double>(2 * 64), 64};
  std::vector<int64_t> numbers;
  for (int64_t k = 0; k < 64; ++k) {
    numbers.push_back(k);
    fill_normal(/*seed=*/1, static_cast<uint64_t>(k), &noise.values[2 * static_cast<size_t>(k)], 2);
  }
  const Array start = Array::of(noise);
  ReferenceOptions recording;
  recording.record = 64;
  const Reference drawn = draw_reference(field, plain_arrays(), start, numbers, recording);
  const Samples samples(field, start, drawn.x, std::make_shared<Trajectories>(drawn.trajectories));

  DistillOptions options;
  options.nfe = 4;
  options.field.schedule = fm_ot_schedule();
  const DistillSummary found = distill(samples, samples, options);
  std::puts(found.brief_report().c_str());
  const NsSolver& solver = found.solver;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    std::printf("u_%zu = velocity of x_%zu at t = %.4f\n", i, i, solver.times[i]);
    std::printf("x_%zu = %.6g x_0", i + 1, solver.a[i]);
    for (size_t j = 0; j <= i; ++j) std::printf(" %+.6g u_%zu", solver.b[i][j], j);
    std::puts("");
  }
}
