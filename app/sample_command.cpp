#include <fmt/ranges.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>

#include "bespoke/core/batches.h"
#include "bespoke/core/file.h"
#include "bespoke/core/progress.h"
#include "commands.h"
#include "drawing.h"
#include "model_options.h"
#include "sample_output.h"
#include "solver_options.h"
#include "space_option.h"
#include "start_options.h"

namespace bespoke {

namespace {

constexpr char kReference[] = "reference";

struct SampleCommandOptions {
  ModelOptions model;
  StartOptions start;
  SolverOptions solver;
  std::string name = "midpoint";
  int nfe = 0;
  double tolerance = 1e-5;
  std::string output, space;
};

Drawing draw(const SampleCommandOptions& options, const OpenModel& open, const Start& start) {
  if (options.name == kReference) {
    return draw_with_reference(start, options.tolerance, options.model.batch);
  }
  constexpr int kDefaultNfe = 8;
  const int nfe = options.nfe == 0 && !is_solver_file(options.name) ? kDefaultNfe : options.nfe;
  return draw_with_solver(start,
                          resolve_solver(options.name, nfe, open.field(), options.solver).solver,
                          options.model.batch);
}

torch::Tensor decode_all(const OpenModel& open, const torch::Tensor& samples, int64_t batch) {
  Progress progress("decoding");
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parts;
  for_each_batch(
      samples.size(0), batch, [&](double done) { progress.update(done); },
      [&](int64_t begin, int64_t end, const auto& report) {
        parts.push_back(open.decoder->decode(samples.slice(0, begin, end)));
        report(1);
      });
  return torch::cat(parts);
}

void run_sample(const SampleCommandOptions& options) {
  const OpenModel open = open_model(options.model);
  const std::string natural = open.decoder ? "decoded" : "sample";
  const bool decoded = in_decoded_space(open, options.space.empty() ? natural : options.space);
  const Start start = make_start(open, options.start);
  make_folders(options.output);  // before the work, so that a bad -o is found out at once
  const auto begun = std::chrono::steady_clock::now();
  const Drawing drawing = draw(options, open, start);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  SampleOutput output;
  output.samples = drawing.samples;
  if (decoded) output.decoded = decode_all(open, drawing.samples, options.model.batch);
  output.parameters = {{"Software", "bespoke " BESPOKE_VERSION},
                       {"model", start.title},
                       {"solver", options.name},
                       {"evaluations", fmt::format("{:g}", drawing.evaluations)}};
  const auto written = write_samples(options.output, open, start, output);
  fmt::print("{}\n{}: {} samples, {:.1f} evaluations each, {:.2f} s\nin {}: {}\n", start.title,
             options.name, start.count(), drawing.evaluations, seconds, options.output,
             fmt::join(written, ", "));
}

}  // namespace

void add_sample_command(CLI::App& app) {
  auto options = std::make_shared<SampleCommandOptions>();
  auto* command = app.add_subcommand(
      "sample",
      "Draw samples with any solver: safetensors, PNG for images, WAV for audio.\n\n"
      "Examples:\n  bespoke sample --solver dpm++2m --nfe 8 --count 64 -o out\n"
      "  bespoke sample --model model.json --cond y=3 --guidance 2 --seeds 0-63 -o out\n"
      "  bespoke sample --model model.json --solver my.solver.json -o out\n"
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
  options->start.add_to(*command);
  add_space_option(*command, options->space);
  options->solver.add_to(*command);
  command->add_option("-o,--output", options->output, "folder for the samples")->required();
  command->callback([options] { run_sample(*options); });
}

}  // namespace bespoke
