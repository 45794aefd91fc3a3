#include <fmt/format.h>

#include <memory>

#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/table.h"
#include "bespoke/base/text.h"
#include "bespoke/jobs/comparison_report.h"
#include "bespoke/jobs/run_distillation.h"
#include "commands/commands.h"
#include "commands/pairs_command.h"
#include "options/distill_options.h"
#include "program/invocation.h"
#include "runs/shown_execution.h"

namespace bespoke {

using namespace detail;

namespace {

std::string describe_progress(const DistillProgress& progress) {
  return fmt::format(
      "iteration {}, loss {:.3f}, validation {:.2f} dB, best {:.2f} dB, {:.0f}k calls",
      progress.iteration, progress.loss, progress.validation_psnr, progress.best_psnr,
      static_cast<double>(progress.training.forwards) / 1000);
}

// A solver that can be used already, after seconds.
void say_start(const StartState& start, const Counts& screening, const SolverShape& shape) {
  say("{}: {:.2f} dB from {}, {} calls", evaluations_text(shape), start.initial_psnr, start.name,
      grouped(screening.forwards));
}

// What is said while solvers are found, on the bars that show all progress.
DistillationEvents shown_events(const std::shared_ptr<ProgressBars>& bars, const OpenModel& open) {
  DistillationEvents events;
  events.on_pairs = [&open](const PairPlan& plan, const PairReport& report,
                            const std::filesystem::path& folder) {
    print_pairs(open, plan, report, folder);
  };
  events.on_start = [bars](const std::string& what, const StartState& start,
                           const Counts& screening, const SolverShape& shape) {
    bars->begin(what);
    say_start(start, screening, shape);
  };
  events.on_iteration = [bars](const std::string& what, const DistillProgress& info, double done) {
    bars->show(what, done, describe_progress(info));
    return interrupt_requested() ? Verdict::stop : Verdict::go_on;
  };
  return events;
}

Table summary_table(const std::vector<DistilledSolver>& outcomes) {
  const bool audio = outcomes.front().summary.contains("validation_snr");
  const bool own_guidance = outcomes.front().solver.guides_itself();
  std::vector<Table::Column> columns = {{"NFE", true},         {"start"},
                                        {"start dB", true, 2}, {"best dB", true, 2},
                                        {"train dB", true, 2}, {"iterations", true},
                                        {"calls", true},       {"VJPs", true},
                                        {"seconds", true, 1},  {"ended"}};
  if (audio) columns.insert(columns.begin() + 4, {"best SNR dB", true, 2});
  if (own_guidance) columns.insert(columns.begin() + 1, {"network calls", true});
  Table table(columns);
  for (const auto& outcome : outcomes) {
    const auto& s = outcome.summary;
    std::vector<nlohmann::json> row = {outcome.solver.nfe(),
                                       s["start"],
                                       s["initial_psnr"],
                                       s["validation_psnr"],
                                       s.value("training_psnr", nlohmann::json()),
                                       s["iterations"],
                                       s["forwards"],
                                       s["vjps"],
                                       s["seconds"],
                                       s["ended"]};
    if (audio) row.insert(row.begin() + 4, s["validation_snr"]);
    if (own_guidance) row.insert(row.begin() + 1, outcome.solver.shape().calls());
    table.add_row(row);
  }
  return table;
}

// On what a budget went.
std::string spending(const DistilledSolver& outcome) {
  const auto of = [&](const char* key) { return outcome.summary.value(key, int64_t{0}); };
  const int64_t samples = of("reference_forwards"), fits = of("screening_forwards");
  const int64_t training = of("forwards"), measuring = of("validation_forwards");
  return fmt::format(
      "{}: {} calls, {} for the model's own samples, {} for fits, {} to train, {} to measure",
      evaluations_text(outcome.solver.shape()), grouped(samples + fits + training + measuring),
      grouped(samples), grouped(fits), grouped(training), grouped(measuring));
}

// Whether an iteration moved a solver towards the statistics: a budget may end before.
bool has_matched(const DistilledSolver& outcome) {
  return outcome.summary.contains("match") && outcome.summary["match"]["iterations"] > 0;
}

// What statistics gained, and what that cost.
std::string matching_text(const DistilledSolver& outcome) {
  const nlohmann::json& match = outcome.summary["match"];
  const nlohmann::json& distance = match["statistics_distance"];
  return fmt::format(
      "{}: matching statistics took their distance from {:.3g} to {:.3g} and the PSNR from {:.2f} "
      "dB to {:.2f}, for {} calls",
      evaluations_text(outcome.solver.shape()), distance[0].get<double>(),
      distance[1].get<double>(), match["psnr_before"].get<double>(),
      outcome.summary["validation_psnr"].get<double>(), grouped(match["forwards"].get<int64_t>()));
}

std::string measured_on(const DistillationResult& result) {
  if (!result.validation_pairs) return "the pairs themselves, as few calls hold out none";
  return fmt::format("{} held-out pairs ({}they chose among iterates too)",
                     *result.validation_pairs,
                     *result.validation_pairs < kEnoughSamples ? "few, and " : "");
}

void print_results(const DistillJob& job, const OpenModel& open, const DistillationResult& result) {
  const std::string title =
      fmt::format("PSNR in dB (peak-to-peak {:g}, {} space) on {}, distilled on {} by {}\n{}",
                  value_peak(open, job.of_decoded), job.of_decoded ? "decoded" : "sample",
                  measured_on(result), result.training_pairs, to_string(job.method), open.title());
  fmt::print("{}\n", summary_table(result.solvers).render(TableFormat::table, title));
  for (const DistilledSolver& outcome : result.solvers) {
    if (has_matched(outcome)) fmt::print("{}\n", matching_text(outcome));
    if (job.most_calls > 0) fmt::print("{}\n", spending(outcome));
  }
  fmt::print("in {}\n", result.file.string());
}

void run_distill(const DistillCommandOptions& options) {
  DistillationRequest request = options.request();
  const OpenModel open = open_model(options.model);
  check_decoded_space(open, request.job.of_decoded);
  if (!options.features.file.empty()) request.features = open_features(options.features, open);
  request.command = invocations().back();
  const auto bars = std::make_shared<ProgressBars>();
  const DistillationResult result = run_distillation(
      request, open, shown_execution(open, options.model.batch, bars), shown_events(bars, open));
  bars->clear();
  print_results(request.job, open, result);
}

}  // namespace

void add_distill_command(CLI::App& app) {
  auto options = std::make_shared<DistillCommandOptions>();
  auto* command = app.add_subcommand(
      "distill",
      "Find the solver of so many evaluations that best reproduces the model's own samples.\n"
      "Solvers of several NFE are found from the same samples and go to one file.\n\n"
      "Examples:\n  bespoke distill --model model.json --nfe 8 -o run\n"
      "  bespoke distill --model model.json --nfe 2-20 -o run\n"
      "  bespoke distill --model model.json --guidance 0-4 --nfe 8 -o run     for all w there\n"
      "  bespoke distill --model model.json --guidance 2 --network-calls 16 -o run\n"
      "  bespoke distill --model model.json --nfe 1-4 --features features.pt -o run   sharper\n"
      "  bespoke pairs --model model.json --guidance 2 -o pairs\n"
      "  bespoke distill --model model.json --guidance 2 --pairs pairs --nfe 4-20+2 -o run\n"
      "  bespoke distill --model model.json --pairs pairs --nfe 8 --method adam -o adam\n"
      "  bespoke distill ... -o run --resume        go on with a run that was stopped");
  options->add_to(*command);
  command->callback([options] { run_distill(*options); });
}

}  // namespace bespoke
