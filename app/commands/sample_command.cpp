#include <fmt/ranges.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>

#include "bespoke/base/batches.h"
#include "bespoke/base/file.h"
#include "bespoke/base/message.h"
#include "bespoke/base/printable_lines.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/psnr.h"
#include "bespoke/base/text.h"
#include "bespoke/model/fields.h"
#include "bespoke/recipe/learning_sampler.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/on_outputs.h"
#include "bespoke/solver/solver_file.h"
#include "bespoke/version.h"
#include "commands/commands.h"
#include "options/drawing_options.h"
#include "options/model_options.h"
#include "options/number_checks.h"
#include "options/option_groups.h"
#include "options/samples_options.h"
#include "options/space_options.h"
#include "program/invocation.h"
#include "runs/sample_output.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kLearn[] = "learn";

struct SampleCommandOptions {
  ModelOptions model;
  SampleChoice samples;
  DrawingOptions drawing;
  int64_t learn_from = LearningOptions().samples;
  std::string output, space;

  bool learns() const { return drawing.name == kLearn; }
};

// Samples and what each cost.
struct Draw {
  torch::Tensor samples;
  double evaluations;     // mean per sample
  int network_calls = 0;  // of a solver with built-in guidance
};

Batching batching_for(const SampleCommandOptions& options, Progress& progress) {
  Batching batching;
  batching.batch = options.model.batch;
  batching.on_progress = [&progress](double done) { progress.update(done); };
  batching.on_less = [](int64_t batch) {
    say("bespoke: out of memory, going on with --batch {}", batch);
  };
  batching.on_note = [](const std::string& note) { say("bespoke: {}", note); };
  return batching;
}

// For `bespoke sample` again, which then learns nothing.
void keep_learnt(const SampleCommandOptions& options, const OpenModel& open,
                 const LearntSolver& learnt) {
  const std::string path = options.output + "/learnt.solver.json";
  SolverFile file;
  file.name = "learnt";
  file.field = open.field();
  file.provenance = {{"made_by", "bespoke " BESPOKE_VERSION " sample"},
                     {"command", invocations().back()},
                     {"model", open.identity()},
                     {"method", kLearn}};
  Provenance provenance;
  provenance.start = learnt.solver.name;
  provenance.samples = learnt.samples;
  provenance.calls = learnt.calls;
  file.put({learnt.solver.solver, to_json(provenance)});
  write_solver_file(path, file);
  say("learnt from the first {} sample{} in {} calls: {:.1f} dB {}, kept in {}", learnt.samples,
      learnt.samples == 1 ? "" : "s", grouped(learnt.calls),
      psnr_of_loss(learnt.loss, value_peak(open, false)),
      learnt.samples == 1 ? "on it, mostly 2 to 5 dB less on others"
                          : "estimated by leaving each out",
      path);
}

// The first samples by many evaluations, and what they teach.
Draw draw_learning(const SampleCommandOptions& options, const OpenModel& open,
                   const ChosenSamples& chosen) {
  LearningOptions learning;
  if (options.drawing.nfe > 0) learning.nfe = options.drawing.nfe;
  learning.samples = options.learn_from;
  LearningSampler sampler(chosen.model, learning);
  const int64_t first = std::min(chosen.count(), learning.samples);
  say("the first {} of {} samples by {} evaluations each{}", first, chosen.count(),
      learning.evaluations,
      first < chosen.count() ? fmt::format(", the others by {}, as they teach", learning.nfe)
                             : "; there are no others to learn for");
  Progress progress("sampling");
  const Batching batching = batching_for(options, progress);
  const auto rows = [&](int64_t begin, int64_t end) {
    Batching part = batching;
    part.first_sample = begin;
    return sampler.sample(chosen.noise(begin, end), slice(chosen.conditions, begin, end), part);
  };
  torch::Tensor samples = rows(0, first);
  int64_t evaluations = first * learning.evaluations;
  if (first < chosen.count()) {
    samples = torch::cat({samples, rows(first, chosen.count())});
    keep_learnt(options, open, *sampler.learnt());
    evaluations = sampler.learnt()->calls + (chosen.count() - first) * learning.nfe;
  }
  return {samples, static_cast<double>(evaluations) / static_cast<double>(chosen.count())};
}

void check_learning(const SampleCommandOptions& options) {
  if (!options.learns()) {
    if (options.learn_from != LearningOptions().samples) {
      throw usage_error("--learn-from goes with --solver learn, found --solver {}",
                        options.drawing.name);
    }
    return;
  }
  check_nfe(options.drawing.nfe > 0 ? options.drawing.nfe : LearningOptions().nfe);
}

Draw draw(const SampleCommandOptions& options, const OpenModel& open, const ChosenSamples& chosen) {
  if (options.learns()) return draw_learning(options, open, chosen);
  const bool by_reference = options.drawing.exactly();
  Progress progress(by_reference ? "reference" : "sampling");
  const Batching batching = batching_for(options, progress);
  if (by_reference) {
    const auto result =
        reference_in_batches(chosen.model, chosen.all_noise(), chosen.conditions,
                             {options.drawing.tolerance, options.drawing.tolerance}, batching);
    return {result.x, result.evaluations.to(torch::kDouble).mean().item<double>()};
  }
  const NsSolver solver = options.drawing.chosen(open.field());
  const SolverOnField run = on_outputs(solver, chosen.model);
  return {
      sample_in_batches(run.solver, *run.field, chosen.all_noise(), chosen.conditions, batching),
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
  check_learning(options);
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
      "  bespoke sample --model model.json --solver learn --nfe 8 --count 1000 -o out   learns "
      "from "
      "the first few\n"
      "  bespoke sample --solver reference --noise out/samples.safetensors -o truth");
  options->drawing.add_to(*command);
  command
      ->add_option(
          "--learn-from", options->learn_from,
          "with --solver learn: the first so many samples are drawn by 30 evaluations each, "
          "and teach a solver of --nfe for the others")
      ->check(positive_number())
      ->capture_default_str();
  options->model.add_to(*command);
  options->model.add_utterances_to(*command);
  add_sample_options(*command, options->samples);
  add_space_option(*command, options->space);
  command->add_option("-o,--output", options->output, "folder for the samples")->required();
  group_options(
      *command,
      {{"By which solver", {"--solver", "--nfe", "--tolerance", "--learn-from"}},
       {"Of what",
        {"--model", "--guidance", "--guidance-scale", "--guidance-interval", "--cond", "--prompt",
         "--prompts", "--utterances", "--count", "--seed", "--seeds", "--noise"}},
       {"What to write", {"--space", "--output"}},
       running_group()});
  command->callback([options] { run_sample(*options); });
}

}  // namespace bespoke
