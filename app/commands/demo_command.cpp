#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/text.h"
#include "bespoke/report/chart.h"
#include "bespoke/solver/solver_file.h"
#include "commands/commands.h"
#include "runs/embedded_models.h"
#include "runs/invocation.h"

namespace bespoke {

using namespace detail;

namespace {

struct DemoCommandOptions {
  std::string model = "cifar10-fm-ot";
  std::string output = "demo";
};

using Arguments = std::vector<std::string>;

// What a user would type next is what the demo runs.
void run_step(const std::string& what, const Arguments& arguments) {
  fmt::print("\n{}\n  $ {}\n\n", what, command_text(arguments));
  std::fflush(stdout);
  run_command(arguments);
  std::fflush(stdout);
}

// The words of a command, with what is in braces replaced.
Arguments split_words(const std::string& text, const DemoCommandOptions& options) {
  Arguments arguments;
  for (const auto& word : split(text, ' ')) {
    arguments.push_back(fmt::format(fmt::runtime(word), fmt::arg("model", options.model),
                                    fmt::arg("output", options.output),
                                    fmt::arg("features", kEmbeddedFeatures)));
  }
  return arguments;
}

// A demo that was stopped goes on where it was.
Arguments distill_step(const DemoCommandOptions& options) {
  const bool begun = is_file(std::filesystem::path(options.output) / "run/options.json");
  return split_words(
      std::string("distill --model {model} --nfe 8 --samples 48 --calls 15000 -o {output}/run") +
          (begun ? " --resume" : ""),
      options);
}

// 72 samples: more than the 64 features, which a covariance needs.
Arguments compare_step(const DemoCommandOptions& options) {
  return split_words(
      std::string("compare --model {model} --cond y=0-9 --count 72 --tolerance 1e-4 --nfe 8 "
                  "--solvers euler,midpoint,dpm++2m,unipc2-bh2,best,"
                  "{output}/run/bns.solver.json --features {features} "
                  "--report {output}/report.html") +
          (charts_are_built() ? " --png {output}/pictures" : ""),
      options);
}

// One that ended; one that was stopped is continued.
void refuse_earlier_demo(const DemoCommandOptions& options) {
  if (!is_file(std::filesystem::path(options.output) / "report.html")) return;
  throw usage_error("{} holds an earlier demo; remove it or choose another -o", options.output);
}

void run_demo(const DemoCommandOptions& options) {
  refuse_earlier_demo(options);
  forget_invocations();  // a report names the commands below instead
  fmt::print(
      "Bespoke makes a small image model, {}, sample faster: 8 model evaluations instead of\n"
      "about eighty, with a solver made for it. Two minutes on two CPU cores.\n",
      options.model);
  run_step(
      "1. The model's own samples, by an adaptive solver; a solver of 8 evaluations fitted to "
      "them\n"
      "   in closed form; and what a few iterations make of it, all by calling the model alone:",
      distill_step(options));
  run_step(
      "2. How near it, the usual solvers and the best of all the catalogue come, on other noise:",
      compare_step(options));
  const auto file = read_solver_file(options.output + "/run/bns.solver.json");
  fmt::print("\nThe solver is {} numbers in {}/run/bns.solver.json\nThe report is {}/report.html\n",
             file.at().parameter_count(), options.output, options.output);
}

}  // namespace

void add_demo_command(CLI::App& app) {
  auto options = std::make_shared<DemoCommandOptions>();
  auto* command = app.add_subcommand(
      "demo",
      "Distil a solver of 8 evaluations for an embedded image model, compare it, and report.\n\n"
      "Examples:\n  bespoke demo\n  bespoke demo --model cifar10-eps-vp -o demo-vp");
  command->add_option("--model", options->model, "an embedded model")
      ->check(CLI::IsMember(embedded_model_names()))
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "folder for what it makes")
      ->capture_default_str();
  command->callback([options] { run_demo(*options); });
}

}  // namespace bespoke
