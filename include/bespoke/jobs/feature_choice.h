#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bespoke/jobs/open_model.h"
#include "bespoke/measure/features.h"

namespace bespoke {

// An extractor of features, which makes sets of samples comparable.
struct FeatureChoice {
  std::string file;   // TorchScript; empty: no features
  std::string range;  // LO,HI that it expects
  int64_t size = 0;   // that images are resized to

  // What is wrong with it can be said before a model is loaded.
  void validate() const;
};

// A loaded extractor, for the samples of one model.
struct OpenFeatures {  // NOLINT(bugprone-exception-escape): to move JSON throws nothing
  std::shared_ptr<const FeatureExtractor> extractor;
  std::string name;         // of its file, for titles
  int64_t dimension = 0;    // features of a sample
  nlohmann::json identity;  // all that decides what it makes of samples
};

// Loads it and tries it on a sample of the model's shape, decoded where there is a decoder.
OpenFeatures open_features(const FeatureChoice& choice, const OpenModel& open);

// The shape of samples as they are seen: decoded, where the model has a decoder.
std::vector<int64_t> seen_shape(const OpenModel& open);

}  // namespace bespoke
