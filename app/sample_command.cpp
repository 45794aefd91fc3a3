#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "bespoke/core/batches.h"
#include "bespoke/core/file.h"
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

struct SampleCommandOptions {
  ModelOptions model;
  SolverOptions solver;
  std::string name = "midpoint";
  int nfe = 0;
  double tolerance = 1e-5;
  std::string output;
};

// What one batch gives: samples and the evaluations each cost.
struct Samples {
  torch::Tensor x;
  double evaluations;  // mean per sample
};

Samples sample_reference(const LoadedModel& loaded, double tolerance, int64_t batch) {
  Progress progress("reference");
  std::vector<torch::Tensor> parts;
  double evaluations = 0;
  const int64_t count = loaded.noise.size(0);
  for_each_batch(
      count, batch, [&](double done) { progress.update(done); },
      [&](int64_t begin, int64_t end, const auto& report) {
        ReferenceOptions options;
        options.tolerances = {tolerance, tolerance};
        options.on_progress = report;
        const auto result = reference(loaded.model, loaded.noise.slice(0, begin, end),
                                      slice(loaded.conditions, begin, end), options);
        parts.push_back(result.x);
        evaluations += result.evaluations.sum().item<double>();
      });
  return {torch::cat(parts), evaluations / static_cast<double>(count)};
}

Samples sample_solver(const LoadedModel& loaded, const NsSolver& solver, int64_t batch) {
  Progress progress("sampling");
  const VelocityField field(loaded.model);
  const torch::Tensor start = starting_scale(solver, *loaded.model->schedule()) * loaded.noise;
  std::vector<torch::Tensor> parts;
  for_each_batch(
      start.size(0), batch, [&](double done) { progress.update(done); },
      [&](int64_t begin, int64_t end, const auto& report) {
        parts.push_back(
            sample(solver, field, start.slice(0, begin, end), slice(loaded.conditions, begin, end),
                   [&](const StepInfo& info) { report((info.step + 1.0) / solver.nfe()); }));
      });
  return {torch::cat(parts), static_cast<double>(solver.nfe())};
}

Samples draw(const SampleCommandOptions& options, const LoadedModel& loaded) {
  if (options.name == kReference) {
    return sample_reference(loaded, options.tolerance, options.model.batch);
  }
  const FieldDescription field = {loaded.model->prediction(), loaded.model->schedule(),
                                  options.model.guidance};
  constexpr int kDefaultNfe = 8;
  const int nfe = options.nfe == 0 && !is_solver_file(options.name) ? kDefaultNfe : options.nfe;
  return sample_solver(loaded, resolve_solver(options.name, nfe, field, options.solver).solver,
                       options.model.batch);
}

void run_sample(const SampleCommandOptions& options) {
  const LoadedModel loaded = load_model(options.model);
  make_folders(options.output);  // before the work, so that a bad -o is found out at once
  const auto path = std::filesystem::path(options.output) / "samples.safetensors";
  const auto start = std::chrono::steady_clock::now();
  const Samples samples = draw(options, loaded);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  write_safetensors(path, {{{"samples", samples.x}, {"noise", loaded.noise}},
                           {{"what", loaded.title}, {"solver", options.name}}});
  fmt::print("{}\n{}: {} samples, {:.1f} evaluations each, {:.2f} s\nwrote {}\n", loaded.title,
             options.name, samples.x.size(0), samples.evaluations, seconds, path.string());
}

}  // namespace

void add_sample_command(CLI::App& app) {
  auto options = std::make_shared<SampleCommandOptions>();
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
  options->model.add_to(*command);
  options->solver.add_to(*command);
  command->add_option("-o,--output", options->output, "folder for samples.safetensors")->required();
  command->callback([options] { run_sample(*options); });
}

}  // namespace bespoke
