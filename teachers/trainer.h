#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "teachers/examples.h"
#include "teachers/objective.h"
#include "teachers/weights.h"

namespace bespoke {

// How the learning rate falls to 0 after the warm-up.
enum class Decay { cosine, linear };

struct TrainOptions {
  int64_t steps = 100000;
  int64_t batch = 256;
  int64_t warmup = 500;  // steps until the full learning rate
  Decay decay = Decay::cosine;
  AdamWOptions adamw;
  AugmentOptions augment;
  uint64_t seed = 0;
  // Progress is reported at the multiples of it, and wherever else the time is right; 0: only
  // there.
  int64_t report_at = 0;
  torch::Device device = torch::kCPU;
  torch::ScalarType dtype = torch::kFloat;  // of the network; its weights are kept in float32
};

struct TrainProgress {
  int64_t step;
  double loss;  // mean since the last report
};

// How often progress is reported, in steps, where they are fast: reading the loss back stalls a
// GPU.
constexpr int64_t kReportEvery = 50;

// Trains the network from `state` on, which begin_adamw or a checkpoint gave. Every step draws from
// a generator seeded by its number, so that a resumed run sees what an unbroken one would. Ends
// early where the callback returns false; throws (diverged) where the loss is not finite.
void train(torch::nn::Module& network, const Loss& loss, const Examples& examples,
           const TrainOptions& options, AdamWState& state,
           const std::function<bool(const TrainProgress&)>& on_progress);

void write_checkpoint(const std::filesystem::path& path, const AdamWState& state);
AdamWState read_checkpoint(const std::filesystem::path& path, torch::Device device);

// Share of examples whose class the network finds.
double accuracy(Classifier& network, const Examples& examples, int64_t batch);

}  // namespace bespoke
