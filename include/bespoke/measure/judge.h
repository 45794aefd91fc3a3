#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/measure/features.h"

namespace bespoke {

// A classifier whose classes have names in words, as it says whether samples show what their
// prompts say. Its folder holds classifier.json and a TorchScript module x [batch, ...] -> [batch,
// classes].
class Judge {
 public:
  Judge(const std::filesystem::path& folder, torch::Device device);

  const std::string& name() const { return name_; }
  // Of the samples it was taught on, without the batch; empty where that is not known.
  const std::vector<int64_t>& sample_shape() const { return sample_shape_; }

  // The class whose name the prompt holds, word for word; the longest where one is part of another.
  // None where the prompt names no class, or several: then there is nothing to judge.
  std::optional<int64_t> named_class(const std::string& prompt) const;

  // The likeliest class of each sample.
  std::vector<int64_t> seen_classes(const torch::Tensor& samples) const;

 private:
  std::string name_;
  std::vector<int64_t> sample_shape_;
  std::vector<std::vector<std::string>> classes_;  // the words of their names
  std::optional<FeatureExtractor> logits_;
};

// Writes classifier.json beside the module `weights`.
void write_judge(const std::filesystem::path& folder, const std::string& weights,
                 const std::vector<std::string>& classes,
                 const std::vector<int64_t>& sample_shape = {});

// Several judges of samples drawn by prompts.
class Jury {
 public:
  Jury(std::vector<Judge> judges, std::vector<std::string> prompts);

  const std::vector<Judge>& judges() const { return judges_; }

  // Whether the samples from number `first` on show what their prompts say, by all judges that have
  // something to judge in them; none for a sample in which no judge has.
  std::vector<std::optional<bool>> verdicts(const torch::Tensor& samples, int64_t first) const;

 private:
  std::vector<Judge> judges_;
  std::vector<std::string> prompts_;
};

}  // namespace bespoke
