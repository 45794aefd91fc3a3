#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "bespoke/base/team.h"

namespace bespoke {

// Where and how a job's work runs. None of it decides what comes out, as far as the model's own
// bits do not depend on it.
struct Execution {
  torch::Device device = torch::kCPU;
  torch::ScalarType dtype = torch::kFloat;  // of states and samples; OpenModel::state_dtype
  int64_t batch = 64;                       // samples computed at once
  Team* team = &alone();                    // whose members share the work; each gets all of it
  // Told what is being done, and which fraction of that is done: 0 ... 1.
  std::function<void(const std::string& what, double done)> on_progress = {};
  // Told what a user should know and need not act on, a sentence without an end.
  std::function<void(const std::string& note)> on_note = {};

  void report(const std::string& what, double done) const {
    if (on_progress) on_progress(what, done);
  }
  void note(const std::string& text) const {
    if (on_note) on_note(text);
  }
};

}  // namespace bespoke
