#include <bespoke/bespoke.h>

#include <cstdio>

// sample_with_solver FILE.solver.json: draws samples with the solver that distill_callable wrote.
int main(int count, char** arguments) try {
  using namespace bespoke;
  if (count != 2) throw usage_error("usage: sample_with_solver FILE.solver.json");
  const SolverFile file = read_solver_file(arguments[1]);
  const NsSolver& solver = file.at();  // the only one; of several, at(4) is that of 4 evaluations

  // The same two Gaussians, as the library has them; with a card, load_model.
  const torch::Tensor ones = torch::ones({1, 8}, torch::kDouble);
  const Mixture mixture = {torch::cat({ones, -ones}), {0.2, 0.2}, {1, 1}, {}};
  const ModelPtr model = mixture_model(mixture, file.field.schedule, Prediction::velocity);

  const torch::Tensor noise = starting_noise(*model, /*seed=*/0, /*first=*/0, /*count=*/256);
  const torch::Tensor samples = sample(solver, VelocityField(model), noise);
  const torch::Tensor exact = reference(model, noise).x;
  std::printf("%s: %d evaluations reach %.2f dB, %d samples\n", file.name.c_str(), solver.nfe(),
              mean_psnr(samples, exact), static_cast<int>(samples.size(0)));
} catch (const bespoke::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
