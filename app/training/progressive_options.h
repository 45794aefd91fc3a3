#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "teachers/halving.h"
#include "teachers/trainer.h"

namespace bespoke {

// The options of `bespoke-train progressive`.
struct ProgressiveOptions {
  std::string model;
  std::string guidance;  // of the first teacher
  int64_t from = 64, to = 4;
  std::string grid = "uniform-t";
  std::vector<std::string> data;        // none: the model's own samples
  std::string captions;                 // of the data, for a model that is told in words
  std::vector<std::string> conditions;  // of the model's own samples, NAME=VALUE
  int64_t samples = 10000;              // so many of them
  int64_t size = 0;
  std::vector<int64_t> updates = {50000};  // of each halving, or one number for all
  std::string weight = "truncated-snr";
  TrainOptions train;
  std::string device = "auto", dtype = "auto";
  int threads = 0;
  std::string output;
  bool resume = false;

  ProgressiveOptions();
  void add_to(CLI::App& command);
  // Everything that can be wrong before the model is read.
  void check() const;
  // The steps of the students, the last one's last.
  std::vector<int64_t> students() const;
  int64_t updates_of(size_t halving) const;
  HalvingWeight loss_weight() const;
  // What decides the result, but for the precision.
  nlohmann::json resolved() const;
};

}  // namespace bespoke
