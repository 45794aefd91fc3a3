#include "training/train_run.h"

#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"
#include "bespoke/jobs/run_folder.h"

namespace bespoke {

using namespace detail;

namespace {

std::filesystem::path checkpoint_in(const std::filesystem::path& folder) {
  return folder / "checkpoint.safetensors";
}

}  // namespace

AdamWState state_to_begin_with(const std::filesystem::path& folder, bool resume,
                               torch::Device device, const torch::nn::Module& network) {
  const torch::Tensor weights = copy_weights(network);
  const auto path = checkpoint_in(folder);
  if (!resume || !is_file(path)) return begin_adamw(weights.to(device));
  AdamWState state = read_checkpoint(path, device);
  if (state.weights.numel() != weights.numel()) {
    throw bad_input("{} is of a network with {} weights, this one has {}; has the data changed?",
                    path.string(), state.weights.numel(), weights.numel());
  }
  return state;
}

TrainingRun::TrainingRun(std::filesystem::path folder, int64_t step)
    : folder_(std::move(folder)), begun_(Clock::now()), stored_(begun_) {
  const auto path = folder_ / "log.jsonl";
  if (is_file(path)) keep_log_until(path, step);
  log_.open(path, std::ios::app);
  if (!log_) throw Error(ErrorKind::failed, "cannot write " + path.string());
}

void TrainingRun::record(const TrainProgress& progress, const AdamWState& state) {
  const nlohmann::json line = {
      {"step", progress.step}, {"loss", progress.loss}, {"seconds", seconds_before_ + seconds()}};
  log_ << json_text(line) << std::endl;
  check_log(log_, folder_ / "log.jsonl");
  constexpr double kInterval = 60;
  if (seconds_since(stored_) >= kInterval) store(state);
}

void TrainingRun::store(const AdamWState& state) {
  write_checkpoint(checkpoint_in(folder_), state);
  stored_ = Clock::now();
}

// A killed run logs more than it stores.
void TrainingRun::keep_log_until(const std::filesystem::path& path, int64_t step) {
  std::string kept;
  for (const auto& text : split(read_file(path), '\n')) {
    const auto line = try_parse_json(text);
    if (!line.is_object() || line.value("step", step + 1) > step) continue;
    seconds_before_ = line.value("seconds", 0.0);
    kept += text + "\n";
  }
  write_file_atomically(path, kept);
}

}  // namespace bespoke
