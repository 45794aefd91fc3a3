#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/message.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/c_header.h"
#include "bespoke/solver/exported_text.h"
#include "commands/export_command.h"
#include "commands/plain_commands.h"
#include "options/path_options.h"
#include "options/solver_options.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kDiffusersFile[] = "scheduler_config.json";

// What a solver becomes; one row feeds the help, the checks and the work.
struct ExportTarget {
  std::string name;
  bool one_solver;   // of a file of several, --nfe must choose
  bool needs_model;  // --model
  bool is_text;      // printed where there is no -o
};

const std::vector<ExportTarget>& export_targets() {
  static const std::vector<ExportTarget> list = {
      {"c", true, false, true},           {"diffusers", false, false, false},
      {"torchscript", true, true, false}, {"markdown", false, false, true},
      {"latex", false, false, true},      {"sigmas", false, false, true}};
  return list;
}

const ExportTarget& find_target(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& target : export_targets()) {
    if (target.name == name) return target;
    names.push_back(target.name);
  }
  throw usage_error("{}", unknown_name("--to", name, names));
}

void check_export(const ExportCommandOptions& options, const ExportTarget& target) {
  if (options.model.empty() == target.needs_model) {
    throw usage_error(target.needs_model ? "--to {} needs the model's card, --model"
                                         : "--to {} needs no --model; it writes the solver alone",
                      target.name);
  }
  if (!target.is_text && options.output.empty()) {
    throw usage_error("--to {} needs -o, the {} to write", target.name,
                      target.name == "diffusers" ? "folder" : "file");
  }
  if (!options.name.empty() && target.name != "c") {
    throw usage_error("--name goes with --to c, where it begins every name");
  }
  if (!target.needs_model && !(options.guidance.empty() && options.guidance_scale.empty() &&
                               options.guidance_interval.empty())) {
    throw usage_error("--guidance goes with --to torchscript; the solver has its own");
  }
}

// What a solver of the catalogue is for. A file says its own.
FieldDescription field_without_model(const ExportCommandOptions& options) {
  const SolverName name = SolverName::parse(options.solver);
  if (name.is_file()) {
    if (!options.schedule.empty()) {
      throw usage_error("{} says its schedule; leave out --schedule", name.file);
    }
    return read_solver_file(name.file).field;
  }
  return {parse_prediction(options.prediction.empty() ? "velocity" : options.prediction),
          make_schedule(options.schedule.empty() ? "fm-ot" : options.schedule), 0};
}

}  // namespace

SolverFile solvers_to_export(const ExportCommandOptions& options, const FieldDescription& field,
                             bool one) {
  const SolverName name = SolverName::parse(options.solver);
  const auto resolved = [&](int nfe) { return resolve(options.solver, nfe, field); };
  if (options.nfe.empty()) {
    return name.is_file() && !one ? finished(name.file, field) : resolved(0);
  }
  const auto list = parse_integer_list(options.nfe, "--nfe");
  if (one && list.size() > 1) {
    throw usage_error("--to {} takes one solver, choose it with --nfe", options.to);
  }
  SolverFile file;
  for (const int64_t nfe : list) {
    check_nfe(nfe);
    SolverFile next = resolved(static_cast<int>(nfe));
    if (file.solvers.empty()) {
      file = std::move(next);
    } else {
      file.put(next.solvers.front());
    }
  }
  return file;
}

namespace {

std::string export_text(const ExportCommandOptions& options, const ExportTarget& target) {
  if (target.needs_model) return torchscript_bytes(options);
  const FieldDescription field = field_without_model(options);
  const SolverFile file = solvers_to_export(options, field, target.one_solver);
  if (options.to == "c") {
    CHeaderOptions header;
    header.name = options.name;
    if (!options.prediction.empty()) header.prediction = parse_prediction(options.prediction);
    return c_header(file, header);
  }
  if (!options.prediction.empty() && SolverName::parse(options.solver).is_file()) {
    throw usage_error("{} says its prediction; leave out --prediction", options.solver);
  }
  if (options.to == "diffusers") return diffusers_config_text(file);
  if (options.to == "sigmas") return sigmas_text(file);
  return options.to == "latex" ? latex_text(file, options.digits)
                               : markdown_text(file, options.digits);
}

void run_export(const ExportCommandOptions& options) {
  const ExportTarget& target = find_target(options.to);
  check_export(options, target);
  const std::string text = export_text(options, target);
  if (options.output.empty()) {
    fmt::print("{}", text);
    return;
  }
  std::filesystem::path path = options.output;
  if (options.to == "diffusers") {
    make_folders(path);
    path /= kDiffusersFile;
  }
  write_file_atomically(path, text);
  say("wrote {}", path.string());
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto options = std::make_shared<ExportCommandOptions>();
  std::vector<std::string> targets;
  for (const auto& target : export_targets()) targets.push_back(target.name);
  auto* command = app.add_subcommand(
      "export",
      "Write a solver for other programs: a C header, a diffusers scheduler, one TorchScript file "
      "of model and solver, a table, or sigmas.\n\n"
      "Examples:\n  bespoke export bns.solver.json --nfe 8 --to c -o solver.h\n"
      "  bespoke export bns.solver.json --to diffusers -o scheduler\n"
      "  bespoke export bns.solver.json --nfe 8 --model model.json --to torchscript -o fast.pt\n"
      "  bespoke export bns.solver.json --nfe 8 --to latex --digits 5\n"
      "  bespoke export bns.solver.json --to sigmas -o bns.sigmas.json");
  command->add_option("SOLVER", options->solver, kSolverNames)->required();
  command->add_option("--to", options->to, fmt::format("{}", fmt::join(targets, ", ")))->required();
  command->add_option("--nfe", options->nfe,
                      "which solvers of the file, such as 8 or 4-8; default all, where the target "
                      "holds several; of the catalogue 8");
  command->add_option("--name", options->name,
                      "begins every name of a C header; default: made of the solver's");
  command->add_option("--digits", options->digits, "significant digits in tables, 1 to 17")
      ->capture_default_str();
  add_path_options(*command, options->schedule, options->prediction);
  command->add_option("--model", options->model, "the model's card, for --to torchscript");
  command->add_option("--guidance", options->guidance,
                      "guidance w of the TorchScript file; default: what the solver was made for; "
                      "a range such as 0-4 is an argument of the module");
  command->add_option("--guidance-scale", options->guidance_scale, "the same as 1 + w");
  command->add_option("--guidance-interval", options->guidance_interval,
                      "FROM,TO in t: outside, w = 0 and the unconditional pass is skipped");
  command->add_option("--dtype", options->dtype, "precision of the TorchScript file's network")
      ->capture_default_str();
  command->add_option("-o,--output", options->output,
                      "the file to write, or the folder of --to diffusers; texts are printed where "
                      "it is left out");
  command->callback([options] { run_export(*options); });
}

}  // namespace bespoke
