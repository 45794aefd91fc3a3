#include "options/compare_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bespoke/base/text.h"
#include "bespoke/solver/named_solver.h"
#include "options/decode_options.h"
#include "options/feature_options.h"
#include "options/format_options.h"
#include "options/option_groups.h"
#include "options/retired_options.h"
#include "options/samples_options.h"
#include "options/solver_options.h"
#include "options/space_options.h"

namespace bespoke {

using namespace detail;

CompareCommandOptions::CompareCommandOptions()
    : solvers(fmt::format("{}", fmt::join(typed.solvers, ","))) {}

void CompareCommandOptions::add_to(CLI::App& command) {
  command
      .add_option("--solvers", solvers,
                  fmt::format("comma-separated, each {}; 'best' is the catalogue's best at each "
                              "NFE over all grids, chosen on samples of their own",
                              kSolverNames))
      ->capture_default_str();
  command.add_option("--nfe", nfe, "evaluations, a list such as 4,8 or 4-20+2")
      ->capture_default_str();
  command.add_option("--tolerance", typed.tolerance, "of the reference, relative and absolute")
      ->capture_default_str();
  command
      .add_option("--equal-up-to", typed.equal_up_to,
                  "looks up to this NFE for how many evaluations the best of the catalogue needs "
                  "to come as near as the distilled solver; 0 does not look")
      ->check(CLI::Range(0, kMostEvaluations))
      ->capture_default_str();
  model.add_to(command);
  model.add_utterances_to(command);
  add_sample_options(command, typed.samples);
  add_space_option(command, space);
  add_retired_solver_options(command, "--solvers dpm++2m");
  command.add_flag("--details", details,
                   "also SNR, quantiles of the squared error and time, a row for each");
  add_feature_options(command, typed.features,
                      "adds Fréchet distances between sets of samples; with an Inception "
                      "network, the FID");
  command.add_option(
      "--real", typed.real,
      "real data to take distances to as well: a folder or .zip of images or sounds, "
      "or a .safetensors or .npy file of samples");
  command.add_option("--judge", typed.judges,
                     "folder of a 'bespoke-train classifier': counts the samples that "
                     "show what their prompts say, or of --utterances the spans in which it "
                     "recognises what is \"said\"; repeatable");
  add_decode_option(command);
  cache.add_to(command);
  report.add_to(command);
  command.add_option("--sounds", sounds,
                     "of a model of sounds: a folder for WAVs of the first samples, by the "
                     "reference and by each solver from the same noise");
  add_format_option(command, format);
  group_options(
      command,
      {{"What to compare", {"--solvers", "--nfe"}},
       {"Of what",
        {"--model", "--guidance", "--guidance-scale", "--guidance-interval", "--cond", "--prompt",
         "--prompts", "--utterances", "--count", "--seed", "--seeds", "--noise"}},
       {"What to measure",
        {"--tolerance", "--space", "--features", "--features-range", "--features-size", "--real",
         "--judge", "--equal-up-to", "--details"}},
       {"What to write", {"--format", "--report", "--svg", "--force", "--sounds"}},
       running_group()});
}

CompareJob CompareCommandOptions::job() const {
  CompareJob job = typed;
  job.solvers = split_solver_names(solvers);
  job.nfes.clear();
  for (const int64_t count : parse_integer_list(nfe, "--nfe")) {
    check_nfe(count);
    job.nfes.push_back(static_cast<int>(count));
  }
  job.of_decoded = is_decoded_space(space);
  job.validate();
  report.check();
  return job;
}

bool CompareCommandOptions::for_programs() const {
  const TableFormat chosen = parse_table_format(format);
  return chosen == TableFormat::csv || chosen == TableFormat::json;
}

}  // namespace bespoke
