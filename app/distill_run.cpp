#include "distill_run.h"

#include "bespoke/core/error.h"
#include "bespoke/core/file.h"

namespace bespoke {

namespace {

constexpr char kCheckpoint[] = "checkpoint.json";
constexpr char kSummary[] = "summary.json";
constexpr char kLog[] = "log.jsonl";

}  // namespace

DistillRun::DistillRun(std::filesystem::path folder)
    : folder_(std::move(folder)), stored_(std::chrono::steady_clock::now()) {
  make_folders(folder_);
  log_.open(folder_ / kLog, std::ios::app);
  if (!log_) throw Error(ErrorKind::failed, "cannot write " + (folder_ / kLog).string());
}

DistillState DistillRun::state() const {
  const auto path = folder_ / kCheckpoint;
  if (!std::filesystem::exists(path)) return {};
  return parse_distill_state(read_file(path), path.string());
}

std::optional<nlohmann::json> DistillRun::finished() const {
  const auto path = folder_ / kSummary;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return nlohmann::json::parse(read_file(path));
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
  log_ << line.dump() << std::endl;
  constexpr std::chrono::seconds kInterval(2);
  if (std::chrono::steady_clock::now() - stored_ >= kInterval) store(state);
}

void DistillRun::store(const DistillState& state) {
  write_file_atomically(folder_ / kCheckpoint, to_json_text(state));
  stored_ = std::chrono::steady_clock::now();
}

void DistillRun::finish(const nlohmann::json& summary) {
  write_file_atomically(folder_ / kSummary, summary.dump(2) + "\n");
}

}  // namespace bespoke
