#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/distill/distill.h"

namespace bespoke {

// Where one distillation keeps its files, in the folder of the command, and its log there: nfe-08,
// or calls-16 where a number of network calls was asked for.
std::filesystem::path distillation_folder(const std::filesystem::path& folder, int nfe,
                                          int network_calls);
std::filesystem::path distillation_log(const std::filesystem::path& folder, const NsSolver& solver);

// The folder of one distillation: checkpoint.json (where it has got to), log.jsonl (a line per
// iteration) and, once it has ended, summary.json.
class DistillRun {
 public:
  explicit DistillRun(std::filesystem::path folder);

  // What a resumed run goes on from: empty if there is none.
  DistillState state() const;

  // The summary of a run that ended by itself.
  std::optional<nlohmann::json> finished() const;

  // Logs an iteration and, now and then, stores the state.
  void record(const DistillProgress& progress, const DistillState& state);
  // The state at once: before the program ends.
  void store(const DistillState& state);
  void finish(const nlohmann::json& summary);

 private:
  std::filesystem::path folder_;
  std::ofstream log_;
  std::chrono::steady_clock::time_point stored_;
};

}  // namespace bespoke
