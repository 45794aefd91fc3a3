#include "bespoke/jobs/distill_run.h"

#include <fmt/format.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"
#include "bespoke/jobs/run_folder.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kCheckpoint[] = "checkpoint.json";
constexpr char kSummary[] = "summary.json";
constexpr char kLog[] = "log.jsonl";

// The lines of iterations that a state has behind it: a killed run logs more than it stores.
std::string lines_behind(const std::string& log, const DistillState& state) {
  std::string kept;
  for (const auto& text : split(log, '\n')) {
    const auto line = try_parse_json(text);
    if (!line.is_object()) continue;
    const auto start = line.value("start", size_t{0});
    const bool behind = start < state.starts.size() &&
                        line.value("iteration", int64_t{0}) <= state.iterations_of(start);
    if (behind) kept += text + "\n";
  }
  return kept;
}

}  // namespace

std::filesystem::path distillation_folder(const std::filesystem::path& folder, int nfe,
                                          int network_calls) {
  return folder / (network_calls > 0 ? fmt::format("calls-{:02}", network_calls)
                                     : fmt::format("nfe-{:02}", nfe));
}

std::filesystem::path distillation_log(const std::filesystem::path& folder,
                                       const NsSolver& solver) {
  const int calls = solver.guides_itself() ? solver.shape().calls() : 0;
  return distillation_folder(folder, solver.nfe(), calls) / kLog;
}

DistillRun::DistillRun(std::filesystem::path folder)
    : folder_(std::move(folder)), stored_(std::chrono::steady_clock::now()) {
  make_folders(folder_);
  if (is_file(folder_ / kLog)) {
    write_file_atomically(folder_ / kLog, lines_behind(read_file(folder_ / kLog), state()));
  }
  log_.open(folder_ / kLog, std::ios::app);
  if (!log_) throw Error(ErrorKind::failed, "cannot write " + (folder_ / kLog).string());
}

DistillState DistillRun::state() const {
  const auto path = folder_ / kCheckpoint;
  if (!is_file(path)) return {};
  return parse_distill_state(read_text_file(path), path.string());
}

std::optional<nlohmann::json> DistillRun::finished() const {
  const auto path = folder_ / kSummary;
  if (!is_file(path)) return std::nullopt;
  return read_json_object(path);
}

void DistillRun::record(const DistillProgress& progress, const DistillState& state) {
  nlohmann::json line = {{"start", progress.start},
                         {"iteration", progress.iteration},
                         {"loss", progress.loss},
                         {"best_psnr", progress.best_psnr},
                         {"forwards", progress.training.forwards},
                         {"vjps", progress.training.vjps},
                         {"seconds", progress.seconds}};
  if (progress.validated) line["validation_psnr"] = progress.validation_psnr;
  log_ << json_text(line) << std::endl;
  check_log(log_, folder_ / kLog);
  constexpr std::chrono::seconds kInterval(2);
  if (std::chrono::steady_clock::now() - stored_ >= kInterval) store(state);
}

void DistillRun::store(const DistillState& state) {
  write_file_atomically(folder_ / kCheckpoint, to_json_text(state));
  stored_ = std::chrono::steady_clock::now();
}

void DistillRun::finish(const nlohmann::json& summary) {
  write_file_atomically(folder_ / kSummary, json_text(summary, 2) + "\n");
}

}  // namespace bespoke
