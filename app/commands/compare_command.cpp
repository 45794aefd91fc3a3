#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/message.h"
#include "bespoke/base/printable_lines.h"
#include "bespoke/base/table.h"
#include "bespoke/base/text.h"
#include "bespoke/jobs/comparison_report.h"
#include "commands/commands.h"
#include "options/compare_options.h"
#include "program/invocation.h"
#include "runs/compare_sounds.h"
#include "runs/shown_execution.h"
#include "runs/team.h"

namespace bespoke {

using namespace detail;

namespace {

// What stands behind the first figure's own title: what it was measured against, and on what.
std::string title_of(const ModelComparison& compared, bool details) {
  const PreparedComparison& prepared = compared.prepared;
  const std::string by = ", ± standard error, by " + to_string(unit_of(compared.figures));
  return fmt::format(
      " against the reference ({:.0f} evaluations per sample, tolerance {:g}){}{}\n{}{}",
      compared.figures.reference_evaluations, prepared.job.tolerance,
      compared.cached_reference ? " (cached)" : "", details ? "" : by, prepared.samples.title,
      few_samples_note(prepared.samples.count()));
}

std::string figures_text(const ModelComparison& compared, const CompareCommandOptions& options) {
  const PreparedComparison& prepared = compared.prepared;
  const TableFormat format = parse_table_format(options.format);
  if (options.for_programs()) {
    return all_figures(compared.figures, prepared.samples.title, false).render(format);
  }
  const std::string title = title_of(compared, options.details);
  if (options.details) return table_of_details(compared.figures, format, title);
  return tables_by_cost(compared.figures, prepared.contenders.nfes, format, title);
}

// For people; programs are told which solvers "best" is beside the figures.
void print_notes(const std::vector<std::string>& notes, bool for_programs) {
  if (for_programs) {
    for (const auto& note : notes) say("bespoke: {}", note);
  } else if (!notes.empty()) {
    fmt::print("\n{}\n", printable_lines(fmt::format("{}", fmt::join(notes, "\n"))));
  }
}

void print_finding(const ModelComparison& compared) {
  const std::string finding = finding_of(compared);
  if (!finding.empty()) fmt::print("\n{}\n", printable(finding));
}

void make_folders_for(const CompareCommandOptions& options) {
  from_first([&] {
    options.report.make_room();
    if (!options.sounds.empty()) make_folders(options.sounds);
    return "";
  });
}

void run_compare(const CompareCommandOptions& options) {
  const bool for_programs = options.for_programs();
  const CompareJob job = options.job();
  TensorCache cache = open_cache(options.cache);
  OpenModel open = open_model(options.model);
  if (!options.sounds.empty() && open.card.sample_rate == 0) {
    throw usage_error("--sounds is for models of sounds, {} is none", open.name);
  }
  const auto bars = std::make_shared<ProgressBars>();
  const Execution execution = shown_execution(open, options.model.batch, bars);
  PreparedComparison prepared =
      prepare_comparison(job, std::move(open), std::move(cache), execution);
  make_folders_for(options);
  ModelComparison compared =
      run_comparison(std::move(prepared), options.shows_samples() ? kReportSamples : 0, execution);
  bars->clear();
  fmt::print("{}", figures_text(compared, options));
  if (is_first() && (!for_programs || options.report.any())) {
    compared.catalogue = find_need(compared, execution);
    bars->clear();
  }
  print_notes(compared.prepared.contenders.notes, for_programs);
  if (!for_programs) print_finding(compared);
  if (!is_first()) return;
  if (options.report.any()) write_reports(make_report(compared, invocations()), options.report);
  if (!options.sounds.empty()) write_compared_sounds(compared, options.sounds);
}

}  // namespace

void add_compare_command(CLI::App& app) {
  auto options = std::make_shared<CompareCommandOptions>();
  auto* command = app.add_subcommand(
      "compare",
      "Measure how near solvers come to the model's own samples, from the same noise.\n\n"
      "Examples:\n  bespoke compare --nfe 4-20+2\n"
      "  bespoke compare --solvers euler,midpoint,my.solver.json --nfe 8 --model "
      "analytic:mixture@vp\n"
      "  bespoke compare --model cifar10-fm-ot --solvers best,dpm++2m/karras,my.solver.json --nfe "
      "8\n"
      "  bespoke compare --nfe 8 --details\n"
      "  bespoke compare --format csv > figures.csv\n"
      "  bespoke compare --model model.json --solvers euler,midpoint,run/bns.solver.json "
      "--nfe 4-24+4 --report report.html\n"
      "  bespoke compare --model model.json --count 10000 --features inception.pt "
      "--features-range 0,1 --features-size 299 --real images.zip\n"
      "  bespoke compare --model infill/model.json --utterances speech/seen --judge digits --nfe 8 "
      "--report report.html");
  options->add_to(*command);
  command->callback([options] { run_compare(*options); });
}

}  // namespace bespoke
