#include <fmt/ranges.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>

#include "bespoke/base/batches.h"
#include "bespoke/base/file.h"
#include "bespoke/base/message.h"
#include "bespoke/base/printable_lines.h"
#include "bespoke/base/progress.h"
#include "bespoke/model/fields.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/on_outputs.h"
#include "bespoke/version.h"
#include "commands/commands.h"
#include "options/drawing_options.h"
#include "options/model_options.h"
#include "options/samples_options.h"
#include "options/space_options.h"
#include "runs/sample_output.h"

namespace bespoke {

using namespace detail;

namespace {

struct SampleCommandOptions {
  ModelOptions model;
  SamplesOptions samples;
  DrawingOptions drawing;
  std::string output, space;
};

// Samples and what each cost.
struct Draw {
  torch::Tensor samples;
  double evaluations;     // mean per sample
  int network_calls = 0;  // of a solver that guides itself
};

Draw draw(const SampleCommandOptions& options, const OpenModel& open, const ChosenSamples& chosen) {
  const bool by_reference = options.drawing.exactly();
  Progress progress(by_reference ? "reference" : "sampling");
  Batching batching;
  batching.batch = options.model.batch;
  batching.on_progress = [&](double done) { progress.update(done); };
  batching.on_less = [](int64_t batch) {
    say("bespoke: out of memory, going on with --batch {}", batch);
  };
  batching.on_note = [](const std::string& note) { say("bespoke: {}", note); };
  if (by_reference) {
    const auto result =
        reference_in_batches(chosen.model, chosen.noise, chosen.conditions,
                             {options.drawing.tolerance, options.drawing.tolerance}, batching);
    return {result.x, result.evaluations.to(torch::kDouble).mean().item<double>()};
  }
  const NsSolver solver = options.drawing.chosen(open.field());
  const SolverOnField run = on_outputs(solver, chosen.model);
  return {sample_in_batches(run.solver, *run.field, chosen.noise, chosen.conditions, batching),
          static_cast<double>(solver.nfe()), solver.guides_itself() ? solver.shape().calls() : 0};
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
  const ChosenSamples chosen = choose_samples(open, options.samples);
  make_folders(options.output);  // before the work, so that a bad -o is found out at once
  const auto begun = std::chrono::steady_clock::now();
  const Draw drawn = draw(options, open, chosen);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  SampleOutput output;
  output.samples = drawn.samples;
  if (decoded) output.decoded = decode_all(open, drawn.samples, options.model.batch);
  output.parameters = {{"Software", "bespoke " BESPOKE_VERSION},
                       {"model", chosen.title},
                       {"solver", options.drawing.name},
                       {"evaluations", fmt::format("{:g}", drawn.evaluations)}};
  std::string cost = fmt::format("{:.1f} evaluations each", drawn.evaluations);
  if (drawn.network_calls > 0) {
    cost += fmt::format(" ({} network calls)", drawn.network_calls);
    output.parameters["network calls"] = fmt::format("{}", drawn.network_calls);
  }
  const auto written = write_samples(options.output, open, chosen, output);
  fmt::print("{}\n{}: {} samples, {}, {:.2f} s\nin {}: {}\n", printable_lines(chosen.title),
             options.drawing.name, chosen.count(), cost, seconds, options.output,
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
      "  bespoke sample --model model.json --solver run/bns.solver.json --nfe 6 -o out\n"
      "  bespoke sample --solver reference --noise out/samples.safetensors -o truth");
  options->drawing.add_to(*command);
  options->model.add_to(*command);
  options->model.add_utterances_to(*command);
  options->samples.add_to(*command);
  add_space_option(*command, options->space);
  command->add_option("-o,--output", options->output, "folder for the samples")->required();
  command->callback([options] { run_sample(*options); });
}

}  // namespace bespoke
