#include "distill_run.h"

#include "bespoke/core/error.h"
#include "bespoke/core/file.h"
#include "bespoke/core/json_checks.h"
#include "bespoke/core/text.h"

namespace bespoke {

namespace {

constexpr char kOptions[] = "options.json";
constexpr char kCheckpoint[] = "checkpoint.json";
constexpr char kSummary[] = "summary.json";
constexpr char kLog[] = "log.jsonl";

nlohmann::json read_json_object(const std::filesystem::path& path) {
  const auto json =
      parse_json(read_file(path), path.string(), "a distillation wrote it; begin anew");
  require(json.is_object(), path.string(), "is not a JSON object; begin the distillation anew");
  return json;
}

// The lines of iterations that a state has behind it: a killed run logs more than it stores.
std::string lines_behind(const std::string& log, const DistillState& state) {
  std::string kept;
  for (const auto& text : split(log, '\n')) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object()) continue;
    const auto start = line.value("start", size_t{0});
    const bool behind = start < state.starts.size() &&
                        line.value("iteration", int64_t{0}) <= state.starts[start].iteration;
    if (behind) kept += text + "\n";
  }
  return kept;
}

}  // namespace

void refuse_unless_resumed(const std::filesystem::path& folder, bool resume) {
  if (resume || !is_file(folder / kOptions)) return;
  throw usage_error("{} holds a distillation; add --resume to continue it or choose another -o",
                    folder.string());
}

void claim_folder(const std::filesystem::path& folder, const nlohmann::json& options, bool resume) {
  make_folders(folder);
  const auto path = folder / kOptions;
  if (!is_file(path)) {
    write_file_atomically(path, options.dump(2) + "\n");
    return;
  }
  refuse_unless_resumed(folder, resume);
  const auto found = read_json_object(path);
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
  if (is_file(folder_ / kLog)) {
    write_file_atomically(folder_ / kLog, lines_behind(read_file(folder_ / kLog), state()));
  }
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
