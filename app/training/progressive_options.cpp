#include "training/progressive_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bespoke/base/error.h"
#include "options/condition_options.h"
#include "options/decode_options.h"
#include "options/number_checks.h"
#include "runs/embedded_models.h"

namespace bespoke {

namespace {

constexpr char kTruncatedSnr[] = "truncated-snr", kSnrPlusOne[] = "snr-plus-one";

void add_optimiser_options(CLI::App& command, ProgressiveOptions& options) {
  TrainOptions& train = options.train;
  command
      .add_option("--updates", options.updates,
                  "of the weights in each halving: one number, or one for each, 4000,4000,8000")
      ->delimiter(',')
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--batch", train.batch, "examples per update")
      ->check(positive_number())
      ->capture_default_str();
  command
      .add_option("--learning-rate", train.adamw.learning_rate,
                  "of Adam, where each halving begins; it falls to 0 along a line")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--warmup", train.warmup, "updates until it is reached")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--ema", train.adamw.ema, "decay of the weights' average, which is written")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option("--weight", options.weight,
                  "what an error in the data counts by its time's signal-to-noise ratio: "
                  "truncated-snr, max(SNR, 1), or snr-plus-one")
      ->check(CLI::IsMember({kTruncatedSnr, kSnrPlusOne}))
      ->capture_default_str();
  command.add_flag("--flip", train.augment.flip, "mirror images at random");
  command.add_option("--seed", train.seed, "of everything random")->capture_default_str();
}

void add_example_options(CLI::App& command, ProgressiveOptions& options) {
  command.add_option("--data", options.data,
                     "what the model was trained on: a folder, zip or .safetensors of images or "
                     "sounds; repeatable (default: the model's own samples)");
  command.add_option(
      "--captions", options.captions,
      "of a model that is told what to draw in words: a file with one caption per line, "
      "one for each of the data in its order");
  add_condition_options(command, options.conditions,
                        "of the model's own samples: condition NAME=VALUE, a class or a list that "
                        "repeats over them (default: all classes in turn)");
  command
      .add_option("--samples", options.samples,
                  "how many of its own samples, where there is no --data")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--size", options.size, "width of images (default: as the model has it)")
      ->check(positive_number());
  add_decode_option(command);
}

}  // namespace

ProgressiveOptions::ProgressiveOptions() {
  train.batch = 128;
  train.warmup = 0;
  train.decay = Decay::linear;
  train.adamw.learning_rate = 1e-4;
  train.adamw.weight_decay = 0;
  train.adamw.ema = 0.999;
}

void ProgressiveOptions::add_to(CLI::App& command) {
  command
      .add_option("--model", model,
                  fmt::format("a model card (model.json) of a TorchScript model, or an embedded "
                              "model ({})",
                              fmt::join(embedded_model_names(), ", ")))
      ->required();
  command.add_option("--from", from, "steps of DDIM the model itself takes")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--to", to, "steps of the last student: --from halved again and again")
      ->check(positive_number())
      ->capture_default_str();
  command
      .add_option("--grid", grid,
                  "where the steps of --from begin and end, a grid as 'bespoke solver' names it; "
                  "students take every second, fourth, ... of these times")
      ->capture_default_str();
  command.add_option("--guidance", guidance,
                     "distil the model as it is with this classifier-free guidance w, a number; "
                     "students then need none");
  add_example_options(command, *this);
  add_optimiser_options(command, *this);
  command.add_option("--device", device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", dtype, "of the student: fp32 or bf16 (default: bf16 on CUDA)")
      ->check(CLI::IsMember({"auto", "fp32", "bf16"}))
      ->capture_default_str();
  command.add_option("--threads", threads, "CPU threads (default: all cores)")
      ->check(positive_number());
  command.add_option("-o,--output", output, "folder for the students, one folder each")->required();
  command.add_flag("--resume", resume, "continue the training in the output folder");
}

void ProgressiveOptions::check() const {
  const auto list = students();
  if (updates.size() != 1 && updates.size() != list.size()) {
    throw usage_error("--updates has {} numbers for {} halvings, {} to {} steps; give one or {}",
                      updates.size(), list.size(), from, to, list.size());
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (train.warmup < updates_of(i)) continue;
    throw usage_error("--warmup {} leaves nothing of --updates {}; give fewer", train.warmup,
                      updates_of(i));
  }
  if (!captions.empty() && data.empty()) throw usage_error("--captions goes with --data");
  if (!conditions.empty() && !data.empty()) {
    throw usage_error("--cond and --prompts are of the model's own samples; --data brings its own");
  }
  if (train.augment.flip && data.empty()) throw usage_error("--flip goes with --data");
  if (guidance.find_first_of(":,-") != std::string::npos) {
    throw usage_error("--guidance {}: a student is for one weight w; give a number", guidance);
  }
}

std::vector<int64_t> ProgressiveOptions::students() const {
  std::vector<int64_t> list;
  int64_t steps = from;
  while (steps > to && steps % 2 == 0) list.push_back(steps /= 2);
  if (list.empty() || steps != to) {
    throw usage_error("--from {} is not --to {} doubled one or more times", from, to);
  }
  return list;
}

int64_t ProgressiveOptions::updates_of(size_t halving) const {
  return updates.size() == 1 ? updates.front() : updates[halving];
}

HalvingWeight ProgressiveOptions::loss_weight() const {
  return weight == kTruncatedSnr ? HalvingWeight::truncated_snr : HalvingWeight::snr_plus_one;
}

nlohmann::json ProgressiveOptions::resolved() const {
  nlohmann::json json = {{"model", model},         {"guidance", guidance},
                         {"from", from},           {"to", to},
                         {"grid", grid},           {"data", data},
                         {"captions", captions},   {"conditions", conditions},
                         {"size", size},           {"updates", updates},
                         {"batch", train.batch},   {"learning_rate", train.adamw.learning_rate},
                         {"warmup", train.warmup}, {"ema", train.adamw.ema},
                         {"weight", weight},       {"flip", train.augment.flip},
                         {"seed", train.seed}};
  if (data.empty()) json["samples"] = samples;
  return json;
}

}  // namespace bespoke
