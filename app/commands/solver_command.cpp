#include <fmt/format.h>

#include <memory>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/solver_file.h"
#include "commands/plain_commands.h"
#include "options/path_options.h"
#include "options/retired_options.h"
#include "options/solver_options.h"

namespace bespoke {

using namespace detail;

namespace {

struct SolverCommandOptions {
  std::string name, output;
  std::string schedule, prediction;  // fm-ot and velocity unless a file says otherwise
  std::string nfe;
};

// What the solver is for: a file says it itself.
FieldDescription field_of(const SolverCommandOptions& options) {
  const SolverName name = SolverName::parse(options.name);
  const std::string schedule = options.schedule.empty() ? "fm-ot" : options.schedule;
  const std::string prediction = options.prediction.empty() ? "velocity" : options.prediction;
  if (!name.is_file()) return {parse_prediction(prediction), make_schedule(schedule), 0};
  if (!options.schedule.empty() || !options.prediction.empty()) {
    throw usage_error("{} says what it is for; leave out --schedule and --prediction", name.file);
  }
  return read_solver_file(name.file).field;
}

// The solvers of all NFE asked for, in one file.
SolverFile resolve_all(const SolverCommandOptions& options) {
  const FieldDescription field = field_of(options);
  SolverFile all;
  for (const int64_t nfe : parse_integer_list(options.nfe.empty() ? "0" : options.nfe, "--nfe")) {
    if (!options.nfe.empty()) check_nfe(nfe);
    SolverFile one = resolve(options.name, static_cast<int>(nfe), field);
    if (all.solvers.empty()) {
      all = std::move(one);
    } else {
      all.put(one.solvers.front());
    }
  }
  return all;
}

void run_solver(const SolverCommandOptions& options) {
  const SolverFile file = resolve_all(options);
  if (options.output.empty()) {
    fmt::print("{}", to_json_text(file));
    return;
  }
  write_solver_file(options.output, file);
  for (const auto& filed : file.solvers) {
    say("wrote {}: {}, {} NFE, {} free parameters", options.output, file.name, filed.solver.nfe(),
        filed.solver.parameter_count());
  }
}

}  // namespace

void add_solver_command(CLI::App& app) {
  auto options = std::make_shared<SolverCommandOptions>();
  auto* command = app.add_subcommand(
      "solver",
      "Print a solver's Non-Stationary coefficients, or write them as a .solver.json.\n\n"
      "Examples:\n  bespoke solver midpoint --nfe 8\n"
      "  bespoke solver dpm++2m/uniform-lambda --nfe 10 --schedule vp -o dpm.solver.json\n"
      "  bespoke solver rk4@cosine --nfe 8\n"
      "  bespoke solver tableau:mine.json --nfe 9\n"
      "  bespoke solver run/bns.solver.json --nfe 6 -o six.solver.json     one of several");
  command
      ->add_option("NAME", options->name,
                   fmt::format("{}; NAME may be tableau:FILE ({{\"a\", \"b\", \"c\"}}) or "
                               "multistep:FILE ({{\"a\", \"b\"}}, oldest first)",
                               kSolverNames))
      ->required();
  command->add_option("--nfe", options->nfe,
                      "model evaluations to spend, 1 to 10000, or a list such as 4-8, all in one "
                      "file; default 8, or the only solver of a file");
  add_path_options(*command, options->schedule, options->prediction);
  add_retired_solver_options(*command);
  command->add_option("-o,--output", options->output, "write to this file instead of printing");
  command->callback([options] { run_solver(*options); });
}

}  // namespace bespoke
