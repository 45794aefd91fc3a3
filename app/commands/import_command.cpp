#include <fmt/format.h>

#include <memory>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/message.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/imported_solver.h"
#include "bespoke/solver/learned_solver.h"
#include "commands/plain_commands.h"
#include "options/path_options.h"
#include "runs/checkpoint_file.h"

namespace bespoke {

using namespace detail;

namespace {

struct ImportCommandOptions {
  std::string file, output, name, method;
  std::string times, sigmas, timesteps;  // a list, or a file of one
  std::string schedule, prediction;
  double end = LearnedSolverFacts().end;
};

// "14.6,3.5,0" or the name of a file that holds such numbers.
std::vector<double> numbers_of(const std::string& text, const std::string& flag) {
  if (is_file(text)) return read_numbers(text);
  std::vector<double> numbers;
  for (const auto& item : split(text, ',')) numbers.push_back(parse_number(item, flag));
  return numbers;
}

std::string schedule_of(const ImportCommandOptions& options) {
  return options.schedule.empty() ? "fm-ot" : options.schedule;
}

std::string prediction_of(const ImportCommandOptions& options) {
  return options.prediction.empty() ? "velocity" : options.prediction;
}

// The description that the options make, as a file would have it.
nlohmann::json description_of(const ImportCommandOptions& options) {
  if (options.method.empty()) {
    throw usage_error("times alone need --method, what to do with them, such as dpm++2m");
  }
  nlohmann::json description = {{"schedule", schedule_of(options)},
                                {"prediction", prediction_of(options)},
                                {"method", options.method}};
  const std::pair<const char*, const std::string&> lists[] = {
      {"times", options.times}, {"sigmas", options.sigmas}, {"timesteps", options.timesteps}};
  for (const auto& [key, text] : lists) {
    if (!text.empty()) description[key] = numbers_of(text, fmt::format("--{}", key));
  }
  return description;
}

// What a tool wrote that knows nothing of descriptions; none where it is a description itself.
std::optional<NamedTables> tables_of_file(const ImportCommandOptions& options) {
  const std::string content = read_file(options.file);
  if (content.rfind("PK", 0) == 0) return read_checkpoint_tables(content, options.file);
  if (content.rfind("\x80", 0) == 0) {
    throw bad_input(
        "{} is a pickle, a program that is not run here; load it with the tool that wrote it and "
        "save its tensors alone: torch.save({{'name': tensor, ...}}, 'plain.pt')",
        options.file);
  }
  const NamedTables tables = named_tables(content);
  if (!is_learned_solver(tables)) return std::nullopt;
  return tables;
}

SolverFile import_learned(const ImportCommandOptions& options, const NamedTables& tables) {
  if (!options.times.empty() || !options.timesteps.empty()) {
    throw usage_error("{} has times of its own; leave out --times and --timesteps", options.file);
  }
  LearnedSolverFacts facts;
  facts.schedule = schedule_of(options);
  facts.prediction = prediction_of(options);
  facts.method = options.method;
  facts.end = options.end;
  if (!options.sigmas.empty()) facts.sigmas = numbers_of(options.sigmas, "--sigmas");
  return import_solvers(describe_learned_solver(tables, facts, options.file), options.file);
}

SolverFile imported(const ImportCommandOptions& options) {
  const bool lists =
      !(options.times.empty() && options.sigmas.empty() && options.timesteps.empty());
  if (options.file.empty() && !lists) {
    throw usage_error(
        "give a file that describes the solver, or --times, --sigmas or --timesteps with --method");
  }
  if (options.file.empty()) return import_solvers(description_of(options), "import");
  if (const auto tables = tables_of_file(options)) return import_learned(options, *tables);
  if (lists ||
      !(options.method.empty() && options.schedule.empty() && options.prediction.empty())) {
    throw usage_error("{} says it all; leave out times, --method, --schedule and --prediction",
                      options.file);
  }
  return read_imported(options.file);
}

void run_import(const ImportCommandOptions& options) {
  SolverFile file = imported(options);
  if (!options.name.empty()) file.name = options.name;
  if (options.output.empty()) {
    fmt::print("{}", to_json_text(file));
    return;
  }
  write_solver_file(options.output, file);
  for (const auto& filed : file.solvers) {
    say("wrote {}: {}, {} NFE", options.output, file.name, filed.solver.nfe());
  }
}

}  // namespace

void add_import_command(CLI::App& app) {
  auto options = std::make_shared<ImportCommandOptions>();
  auto* command = app.add_subcommand(
      "import",
      "Turn a solver of others into a .solver.json: times alone, coefficients, or weights over "
      "predictions (docs/reference/solver-file.md has the format).\n\n"
      "Examples:\n  bespoke import theirs.json -o theirs.solver.json\n"
      "  bespoke import --sigmas 14.61,3.5,1.2,0.3,0 --method dpm++2m --schedule "
      "ddpm-scaled-linear --prediction noise -o a.solver.json\n"
      "  bespoke import --timesteps ld3.txt --method ipndm --schedule ddpm-linear -o "
      "b.solver.json\n"
      "  bespoke import best_v2.pt --method ipndm --schedule vp --prediction noise -o "
      "ld3.solver.json\n"
      "  bespoke compare --model model.json --nfe 4 --solvers dpm++2m,a.solver.json\n"
      "  bespoke distill --model model.json --nfe 4 --init a.solver.json -o run");
  command->add_option("FILE", options->file,
                      "a JSON description: a schedule, times and coefficients; or what LD3, GAS, "
                      "DyWeight, GITS or NeuralSolver wrote");
  command->add_option("--times", options->times,
                      "times alone, 0 noise to 1 data: 0,0.3,1 or a file of numbers");
  command->add_option("--sigmas", options->sigmas,
                      "the same as falling sigmas, sigma / alpha, or sigma on a flow path");
  command->add_option("--timesteps", options->timesteps,
                      "the same as falling indices of noise levels, 999 to 0");
  command->add_option("--method", options->method, "a method of the catalogue to run on them");
  command
      ->add_option("--end", options->end,
                   "of a file of GAS: the time its steps end at, 1 at the noise (t_eps)")
      ->check(CLI::Range(0.0, 0.5))
      ->capture_default_str();
  add_path_options(*command, options->schedule, options->prediction);
  command->add_option("--name", options->name, "what to call it");
  command->add_option("-o,--output", options->output, "write to this file instead of printing");
  command->callback([options] { run_import(*options); });
}

}  // namespace bespoke
