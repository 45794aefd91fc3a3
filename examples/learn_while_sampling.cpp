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

// The first samples teach how to draw the others in four evaluations each: nothing is done
// beforehand, and all samples are good ones.
int main() {
  using namespace bespoke;
  const ModelPtr model = function_model(Prediction::velocity, fm_ot_schedule(), {8}, velocity);
  LearningOptions options;
  options.nfe = 4;
  LearningSampler sampler(model, options);
  for (uint64_t call = 0; call < 3; ++call) {
    const torch::Tensor samples = sampler.sample(starting_noise(*model, /*seed=*/call, 0, 6));
    std::printf("call %d: %d samples, %s\n", static_cast<int>(call),
                static_cast<int>(samples.size(0)),
                sampler.learnt() ? sampler.learnt()->solver.name.c_str() : "still learning");
  }
}
