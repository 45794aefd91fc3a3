#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <map>
#include <memory>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/solver_file.h"
#include "commands/commands.h"
#include "program/invocation.h"
#include "runs/embedded_models.h"

namespace bespoke {

using namespace detail;

namespace {

struct DemoCommandOptions {
  std::string model = "cifar10-fm-ot";
  std::string output = "demo";
  bool few = false;  // one to four evaluations
};

using Arguments = std::vector<std::string>;

// What a user would type next is what the demo runs.
void run_step(const std::string& what, const Arguments& arguments) {
  fmt::print("\n{}\n  $ {}\n\n", what, command_text(arguments));
  std::fflush(stdout);
  run_command(arguments);
  std::fflush(stdout);
}

// What the demo's commands say of the model: of images by class, of images by prompt, or of gaps in
// speech.
struct DemoCase {
  std::string kind;     // of model
  std::string samples;  // which samples, for distillation and comparison alike
  std::string distill;  // the size of the distillation
  std::string compare;  // the size of the comparison, and what it measures
  std::string nfe;      // of the solvers, all from the same samples
  std::string time;     // on two CPU cores
};

// What 'compare --solvers best' finds for the embedded models at 8 evaluations and the demo's
// guidance: the best of the catalogue on its best grid. To look for it again would take a third of
// the demo.
const std::map<std::string, std::string>& best_found() {
  static const std::map<std::string, std::string> best = {
      {"cifar10-fm-ot", "dpm++3m/lambda-range:from=-4.30,to=4.50"},
      {"cifar10-eps-vp", "dpm++3m/lambda-range:from=-4.31,to=4.49"},
      {"emoji-t2i", "deis-rho-ab2/lambda-range:from=-3.83,to=3.77"},
      {"speech", "dpm++3s/lambda-range:from=-3.80,to=3.80"}};
  return best;
}

// All that the demo compares, with one more of the usual solvers.
std::string compared(const DemoCommandOptions& options, const std::string& usual) {
  return fmt::format("--solvers euler,midpoint,dpm++2m,{},{},{}/run/bns.solver.json", usual,
                     best_found().at(options.model), options.output);
}

DemoCase by_class(const DemoCommandOptions& options) {
  // Two cores take a fifth longer for a sample in larger batches.
  return {"image model",
          "",
          "--calls 7000 --batch 32",
          "--cond y=0-9 --count 48 --batch 32 " + compared(options, "unipc2-bh2"),
          "4,6,8,12",
          "A minute"};
}

// Where guidance doubles the calls of the network, fewer evaluations, and the catalogue is tried up
// to twice as many only.
constexpr char kGuidedSize[] = "--calls 8000";

DemoCase by_prompt(const DemoCommandOptions& options, const std::string& prompts) {
  return {"image model",
          fmt::format("--prompts {} --guidance 2", prompts),
          kGuidedSize,
          "--count 16 --space decoded --equal-up-to 16 " + compared(options, "unipc3-bh2"),
          "8",
          "A minute and a half"};
}

DemoCase by_gap(const DemoCommandOptions& options, const std::string& gaps) {
  return {"model of speech",
          fmt::format("--utterances {} --guidance 1", gaps),
          kGuidedSize,
          fmt::format("--equal-up-to 16 {} --sounds {}/sounds", compared(options, "unipc3-bh2"),
                      options.output),
          "8",
          "A minute"};
}

DemoCase case_of(const DemoCommandOptions& options) {
  const auto prompts = embedded_prompts(options.model), gaps = embedded_gaps(options.model);
  if (!prompts.empty()) return by_prompt(options, prompts.string());
  if (!gaps.empty()) return by_gap(options, gaps.string());
  return by_class(options);
}

Arguments words(const std::string& text) {
  Arguments words;
  for (const auto& word : split(text, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

// A demo that was stopped goes on where it was.
Arguments distill_step(const DemoCommandOptions& options, const std::string& how,
                       const std::string& run) {
  const bool begun = is_file(std::filesystem::path(options.output) / run / "options.json");
  return words(fmt::format("distill --model {} {} -o {}/{}{}", options.model, how, options.output,
                           run, begun ? " --resume" : ""));
}

// Pictures without the report that comes after them were left by a demo that was stopped.
Arguments compare_step(const DemoCommandOptions& options, const std::string& what) {
  const bool drawn = is_file(std::filesystem::path(options.output) / "pictures/psnr.svg");
  return words(fmt::format(
      "compare --model {0} {1} --tolerance 1e-4 --report {2}/report.html --svg {2}/pictures{3}",
      options.model, what, options.output, drawn ? " --force" : ""));
}

// One that ended; one that was stopped is continued.
void refuse_earlier_demo(const DemoCommandOptions& options) {
  if (!is_file(std::filesystem::path(options.output) / "report.html")) return;
  throw usage_error("{} holds an earlier demo; remove it or choose another -o", options.output);
}

void run_usual(const DemoCommandOptions& options) {
  const DemoCase what = case_of(options);
  fmt::print(
      "Bespoke makes a small {}, {}, sample faster, with solvers of {} evaluations\n"
      "that are made for it. {} on two CPU cores.\n",
      what.kind, options.model, fmt::join(split(what.nfe, ','), ", "), what.time);
  run_step(
      "1. The model's own samples; solvers fitted to them in closed form; and what a few "
      "iterations\n"
      "   make of each, all by calling the model alone:",
      distill_step(options, fmt::format("{} --nfe {} {}", what.samples, what.nfe, what.distill),
                   "run"));
  run_step(
      fmt::format("2. How near it and the others come, on other noise; {} is the best\n"
                  "   of the catalogue at 8 evaluations ('--solvers best' looks for it):",
                  best_found().at(options.model)),
      compare_step(options, fmt::format("{} --nfe {} {}", what.samples, what.nfe, what.compare)));
  const auto file = read_solver_file(options.output + "/run/bns.solver.json");
  fmt::print(
      "\nThe solver of 8 evaluations is {} numbers in {}/run/bns.solver.json\n"
      "The report is {}/report.html\n",
      file.at(8).parameter_count(), options.output, options.output);
}

// One to four evaluations, matched to each sample and to their distribution as well.
void run_few(const DemoCommandOptions& options) {
  if (!embedded_prompts(options.model).empty() || !embedded_gaps(options.model).empty()) {
    throw usage_error(
        "--few is for the models of images by class, whose features are embedded: cifar10-fm-ot "
        "and cifar10-eps-vp; found {}",
        options.model);
  }
  fmt::print(
      "Bespoke makes a small image model, {}, draw in one to four model evaluations instead of\n"
      "about eighty. Three minutes on two CPU cores.\n",
      options.model);
  run_step(
      "1. Solvers whose samples are as near as they can be to the model's, one by one. Where\n"
      "   evaluations are few, near means blurred:",
      distill_step(options, "--nfe 1-4 --calls 2000 --batch 32", "samples"));
  run_step(
      "2. From these on, the mean and covariance of a classifier's features of the samples are\n"
      "   matched as well, still by calling the model alone:",
      distill_step(options,
                   fmt::format("--nfe 1-4 --init {}/samples/bns.solver.json --iterations 1 "
                               "--samples 24 --match both --features {} --match-samples 128 "
                               "--batch 32",
                               options.output, kEmbeddedFeatures),
                   "both"));
  run_step("3. Both side by side, on other noise, beside the model's own samples:",
           compare_step(options,
                        fmt::format("--cond y=0-9 --count 64 --batch 32 --nfe 1-4 --equal-up-to 0 "
                                    "--solvers {0}/samples/bns.solver.json,"
                                    "{0}/both/bns.solver.json",
                                    options.output)));
  fmt::print(
      "\nSamples that are matched as a set as well miss the model's by a little more, one by one, "
      "and are\nsharper: see {0}/pictures/samples.png\nThe report is {0}/report.html\n",
      options.output);
}

void run_demo(const DemoCommandOptions& options) {
  refuse_earlier_demo(options);
  forget_invocations();  // a report names the commands it was made by instead
  options.few ? run_few(options) : run_usual(options);
}

}  // namespace

void add_demo_command(CLI::App& app) {
  auto options = std::make_shared<DemoCommandOptions>();
  auto* command =
      app.add_subcommand("demo",
                         "Distil solvers for an embedded model, compare them, and report.\n\n"
                         "Examples:\n  bespoke demo\n  bespoke demo --few -o demo-few\n"
                         "  bespoke demo --model emoji-t2i -o demo-t2i\n"
                         "  bespoke demo --model speech -o demo-speech");
  command->add_option("--model", options->model, "an embedded model")
      ->check(CLI::IsMember(embedded_model_names()))
      ->capture_default_str();
  command->add_flag("--few", options->few,
                    "solvers of 1 to 4 evaluations instead, matched to the samples and to their "
                    "distribution as well");
  command->add_option("-o,--output", options->output, "folder for what it makes")
      ->capture_default_str();
  command->callback([options] { run_demo(*options); });
}

}  // namespace bespoke
