#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "bespoke/core/error.h"
#include "bespoke/core/progress.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/model/fields.h"
#include "bespoke/solver/reference.h"
#include "bespoke/solver/sampler.h"
#include "commands.h"
#include "model_options.h"
#include "solver_options.h"

namespace bespoke {

namespace {

constexpr char kReference[] = "reference";

struct Options {
  ModelOptions model;
  SolverOptions solver;
  std::string name = "midpoint";
  int nfe = 0;
  double tolerance = 1e-5;
  std::string noise, output;
};

// What one batch gives: samples and the evaluations each cost.
struct Samples {
  torch::Tensor x;
  double evaluations;  // mean per sample
};

torch::Tensor read_noise(const std::string& path, const torch::Tensor& like) {
  const TensorFile file = read_safetensors(path);
  const auto found = file.tensors.find("noise");
  if (found == file.tensors.end()) throw bad_input("{}: has no tensor named 'noise'", path);
  if (found->second.sizes().slice(1) != like.sizes().slice(1)) {
    throw bad_input("{}: noise of shape {} does not fit the model's samples of shape {}", path,
                    fmt::join(found->second.sizes().slice(1), "x"),
                    fmt::join(like.sizes().slice(1), "x"));
  }
  return found->second.to(like.scalar_type());
}

Samples sample_reference(const LoadedModel& loaded, double tolerance, int64_t batch) {
  Progress progress("reference");
  std::vector<torch::Tensor> parts;
  double evaluations = 0;
  const int64_t count = loaded.noise.size(0);
  for (int64_t begin = 0; begin < count; begin += batch) {
    const int64_t end = std::min(count, begin + batch);
    ReferenceOptions options;
    options.tolerances = {tolerance, tolerance};
    options.on_progress = [&](double done) {
      progress.update((static_cast<double>(begin) + done * static_cast<double>(end - begin)) /
                      static_cast<double>(count));
    };
    const auto result = reference(loaded.model, loaded.noise.slice(0, begin, end),
                                  slice(loaded.conditions, begin, end), options);
    parts.push_back(result.x);
    evaluations += result.evaluations.sum().item<double>();
  }
  return {torch::cat(parts), evaluations / static_cast<double>(count)};
}

Samples sample_solver(const LoadedModel& loaded, const NsSolver& solver, int64_t batch) {
  Progress progress("sampling");
  const VelocityField field(loaded.model);
  std::vector<torch::Tensor> parts;
  const int64_t count = loaded.noise.size(0);
  for (int64_t begin = 0; begin < count; begin += batch) {
    const int64_t end = std::min(count, begin + batch);
    const auto on_step = [&](const StepInfo& info) {
      const double done = (info.step + 1.0) / solver.nfe();
      progress.update((static_cast<double>(begin) + done * static_cast<double>(end - begin)) /
                      static_cast<double>(count));
    };
    parts.push_back(sample(solver, field, loaded.noise.slice(0, begin, end),
                           slice(loaded.conditions, begin, end), on_step));
  }
  return {torch::cat(parts), static_cast<double>(solver.nfe())};
}

void run_sample(const Options& options) {
  LoadedModel loaded = load_model(options.model);
  if (!options.noise.empty()) {
    loaded.noise = read_noise(options.noise, loaded.noise).slice(0, 0, options.model.count);
    loaded.conditions = slice(loaded.conditions, 0, loaded.noise.size(0));
  }
  const FieldDescription field = {loaded.model->prediction(), loaded.model->schedule(),
                                  options.model.guidance};
  const auto start = std::chrono::steady_clock::now();
  Samples samples;
  if (options.name == kReference) {
    samples = sample_reference(loaded, options.tolerance, options.model.batch);
  } else {
    const bool from_file = options.nfe == 0 && options.name.find(".json") != std::string::npos;
    const int nfe = options.nfe == 0 && !from_file ? 8 : options.nfe;
    samples = sample_solver(loaded, resolve_solver(options.name, nfe, field, options.solver).solver,
                            options.model.batch);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::filesystem::create_directories(options.output);
  const auto path = std::filesystem::path(options.output) / "samples.safetensors";
  write_safetensors(path, {{{"samples", samples.x}, {"noise", loaded.noise}},
                           {{"what", loaded.title}, {"solver", options.name}}});
  fmt::print("{}\n{}: {} samples, {:.1f} evaluations each, {:.2f} s\nwrote {}\n", loaded.title,
             options.name, samples.x.size(0), samples.evaluations, seconds, path.string());
}

}  // namespace

void add_sample_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand(
      "sample",
      "Draw samples with any solver and write them as safetensors.\n\n"
      "Examples:\n  bespoke sample --solver dpm++2m --nfe 8 --count 64 -o out\n"
      "  bespoke sample --solver my.solver.json -o out\n"
      "  bespoke sample --solver reference --noise out/samples.safetensors -o truth");
  command
      ->add_option("--solver", options->name,
                   "a name from 'bespoke solvers', a .solver.json, or 'reference' (adaptive RK45)")
      ->capture_default_str();
  command->add_option("--nfe", options->nfe,
                      "model evaluations to spend; default 8, or what the solver file has");
  command->add_option("--tolerance", options->tolerance, "of the reference, relative and absolute")
      ->capture_default_str();
  command->add_option("--noise", options->noise,
                      "start from the tensor 'noise' of this safetensors file");
  options->model.add_to(*command);
  options->solver.add_to(*command);
  command->add_option("-o,--output", options->output, "folder for samples.safetensors")->required();
  command->callback([options] { run_sample(*options); });
}

}  // namespace bespoke
