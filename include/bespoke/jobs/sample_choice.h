#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bespoke/jobs/open_model.h"

namespace bespoke {

// Which samples: what their noise and their conditions are.
struct SampleChoice {
  std::vector<std::string> conditions;  // NAME=VALUE
  int64_t count = 0;                    // 0: 64, or as many as there are seeds, noise or gaps
  int64_t seed = 0;
  std::string seeds;  // a list: sample i is the first of seed seeds[i]
  std::string noise;  // a file of it
};

// The samples chosen: their noise and all that decides them.
struct ChosenSamples {
  ModelPtr model;  // guided, where guidance was asked for
  // Of samples begin ... end - 1, drawn or read when it is asked for: in the state's type, on the
  // model's device.
  std::function<torch::Tensor(int64_t begin, int64_t end)> noise;
  Conditions conditions;            // of all samples, with their weights where guidance is a range
  std::string title;                // what figures printed about them are of
  std::vector<std::string> labels;  // one per sample, for file names: its seed or number
  // One per sample of a model that is told what to draw, in the words it knows; none otherwise.
  std::vector<std::string> prompts;

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  torch::Tensor all_noise() const { return noise(0, count()); }
};

// Checks the choice against the model and reads the conditions.
ChosenSamples choose_samples(const OpenModel& open, const SampleChoice& choice);

}  // namespace bespoke
