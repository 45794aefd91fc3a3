#include "distill_run.h"

#include "bespoke/core/error.h"
#include "bespoke/core/file.h"

namespace bespoke {

namespace {

constexpr char kOptions[] = "options.json";
constexpr char kCheckpoint[] = "checkpoint.json";
constexpr char kSummary[] = "summary.json";
constexpr char kLog[] = "log.jsonl";

}  // namespace

void claim_folder(const std::filesystem::path& folder, const nlohmann::json& options, bool resume) {
  make_folders(folder);
  const auto path = folder / kOptions;
  if (!is_file(path)) {
    write_file_atomically(path, options.dump(2) + "\n");
    return;
  }
  if (!resume) {
    throw usage_error("{} holds a distillation; add --resume to continue it or choose another -o",
                      folder.string());
  }
  const auto found = nlohmann::json::parse(read_file(path));
  for (const auto& [key, value] : options.items()) {
    if (found.value(key, nlohmann::json()) != value) {
      throw bad_input("{} was begun with {} = {}, this run has {}; give the same options",
                      folder.string(), key, found.value(key, nlohmann::json()).dump(),
                      value.dump());
    }
  }
}

DistillRun::DistillRun(std::filesystem::path folder)
    : folder_(std::move(folder)), stored_(std::chrono::steady_clock::now()) {
  make_folders(folder_);
  log_.open(folder_ / kLog, std::ios::app);
  if (!log_) throw Error(ErrorKind::failed, "cannot write " + (folder_ / kLog).string());
}

DistillState DistillRun::state() const {
  const auto path = folder_ / kCheckpoint;
  if (!is_file(path)) return {};
  return parse_distill_state(read_file(path), path.string());
}

std::optional<nlohmann::json> DistillRun::finished() const {
  const auto path = folder_ / kSummary;
  if (!is_file(path)) return std::nullopt;
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
