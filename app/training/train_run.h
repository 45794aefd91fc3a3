#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "bespoke/base/clock.h"
#include "teachers/trainer.h"

namespace bespoke {

// Where a training in this folder goes on from: its checkpoint, if it is to be resumed and there is
// one, or the network as it is.
AdamWState state_to_begin_with(const std::filesystem::path& folder, bool resume,
                               torch::Device device, const torch::nn::Module& network);

// The folder of a training: checkpoint.safetensors (where it has got to) and log.jsonl (a line per
// report).
class TrainingRun {
 public:
  // Goes on from `step`.
  TrainingRun(std::filesystem::path folder, int64_t step);

  // Of this process.
  double seconds() const { return detail::seconds_since(begun_); }

  // Logs a report and, now and then, stores the state.
  void record(const TrainProgress& progress, const AdamWState& state);
  // The state at once.
  void store(const AdamWState& state);

 private:
  void keep_log_until(const std::filesystem::path& path, int64_t step);

  std::filesystem::path folder_;
  std::ofstream log_;
  detail::Clock::time_point begun_, stored_;
  double seconds_before_ = 0;  // of the processes before
};

}  // namespace bespoke
