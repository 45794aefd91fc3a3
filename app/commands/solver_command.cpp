#include <fmt/format.h>

#include <memory>

#include "bespoke/base/message.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/solver_file.h"
#include "commands/commands.h"
#include "options/model_options.h"
#include "options/solver_options.h"

namespace bespoke {

using namespace detail;

namespace {

struct SolverCommandOptions {
  std::string name, output;
  std::string schedule = "fm-ot", prediction = "velocity";
  std::string nfe = "8";
  SolverOptions solver;
};

void run_solver(const SolverCommandOptions& options) {
  const FieldDescription field = {parse_prediction(options.prediction),
                                  make_schedule(options.schedule), 0};
  const int64_t nfe = parse_integer(options.nfe, "--nfe");
  check_nfe(nfe);
  const SolverFile file = resolve(options.name, static_cast<int>(nfe), field, options.solver);
  if (options.output.empty()) {
    fmt::print("{}", to_json_text(file));
    return;
  }
  write_solver_file(options.output, file);
  say("wrote {}: {}, {} NFE, {} free parameters", options.output, file.name, file.solver.nfe(),
      file.solver.parameter_count());
}

}  // namespace

void add_solver_command(CLI::App& app) {
  auto options = std::make_shared<SolverCommandOptions>();
  auto* command = app.add_subcommand(
      "solver",
      "Print a solver's Non-Stationary coefficients, or write them as a .solver.json.\n\n"
      "Examples:\n  bespoke solver midpoint --nfe 8\n"
      "  bespoke solver dpm++2m --nfe 10 --schedule vp --grid uniform-lambda -o dpm.solver.json\n"
      "  bespoke solver rk4 --nfe 8 --via cosine\n"
      "  bespoke solver tableau:mine.json --nfe 9");
  command
      ->add_option("NAME", options->name,
                   fmt::format("{}; NAME may be tableau:FILE ({{\"a\", \"b\", \"c\"}}) or "
                               "multistep:FILE ({{\"a\", \"b\"}}, oldest first)",
                               kSolverNames))
      ->required();
  command->add_option("--nfe", options->nfe, "model evaluations to spend, 1 to 10000")
      ->capture_default_str();
  add_path_options(*command, options->schedule, options->prediction);
  options->solver.add_to(*command);
  command->add_option("-o,--output", options->output, "write to this file instead of printing");
  command->callback([options] { run_solver(*options); });
}

}  // namespace bespoke
