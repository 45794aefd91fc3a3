#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/table.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/jobs/network_calls.h"
#include "bespoke/jobs/real_data.h"
#include "bespoke/measure/card_check.h"
#include "bespoke/model/network_trial.h"
#include "bespoke/recipe/error_mask.h"
#include "commands/commands.h"
#include "options/condition_options.h"
#include "options/model_options.h"
#include "runs/check_verdict.h"
#include "runs/shown_execution.h"

namespace bespoke {

using namespace detail;

namespace {

struct CheckCommandOptions {
  ModelOptions model;
  std::vector<std::string> conditions;
  std::optional<int64_t> count;
  std::string data;
  uint64_t seed = 0;

  // Real samples cost no drawing, and are scored once rather than in every set.
  int64_t samples() const { return count.value_or(data.empty() ? 4 : 16); }
};

std::string describe_gradient(const OpenModel& open, const CallReport& report) {
  if (!has_gradients(*open.network)) {
    return "none, it is compiled: every method distils it but adam";
  }
  return report.differentiable ? "differentiable in x: it can be distilled"
                               : "not differentiable in x: every method distils it but adam";
}

void print_call(const OpenModel& open, const CallReport& report, int64_t count) {
  const auto& card = open.card;
  fmt::print("{}\n  network      {:.1f} M parameters, samples {}, on {}\n", open.title(),
             static_cast<double>(parameter_count(*open.network)) / 1e6,
             fmt::join(card.sample_shape, " x "), open.device.str());
  fmt::print("  evaluation   {:.2f} ms per sample in a batch of {}, process memory {:.0f} MB\n",
             1e3 * report.seconds, count, report.megabytes);
  fmt::print("  batch        a sample alone and in the batch differ by {:.1e}\n",
             report.batch_difference);
  const NetworkHabits habits = network_habits(*open.network);
  if (habits.writes_input) {
    fmt::print("  input        it writes into its input: it is given a copy\n");
  }
  if (habits.returns_buffer) {
    fmt::print("  output       it returns a tensor that it keeps: its output is copied\n");
  }
  fmt::print("  gradient     {}\n", describe_gradient(open, report));
}

// Conditions for the check: what was given, otherwise every class in turn, or for real samples,
// whose classes are not known, none where the card has a null.
Conditions check_conditions(const OpenModel& open, const CheckCommandOptions& options) {
  auto texts = options.conditions;
  for (const auto& condition : open.card.conditions) {
    const bool given = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return text.rfind(condition.name + "=", 0) == 0;
    });
    if (given || condition.is_tensor()) continue;
    if (!options.data.empty() && condition.has_null()) continue;
    const int64_t last = std::min(condition.classes, options.samples()) - 1;
    texts.push_back(fmt::format("{}=0-{}", condition.name, last));
  }
  return read_conditions(open.card.conditions, texts, options.samples(), open.utterance_rows);
}

// As many real samples as asked for, spread over all there are; undefined without --data.
torch::Tensor real_samples(const OpenModel& open, const CheckCommandOptions& options) {
  if (options.data.empty()) return {};
  const std::string option = "--data " + options.data;
  const auto all =
      read_real_samples(option, options.data, {open.card.sample_shape, open.card.sample_rate},
                        shown_execution(open, options.model.batch));
  const int64_t count = options.samples();
  if (all.size(0) < count) {
    throw bad_input("{}: has {} samples, the check takes {}; give more data or a smaller --count",
                    option, all.size(0), count);
  }
  const auto places = torch::arange(count, torch::kLong) * (all.size(0) / count);
  return in_value_range(all.index_select(0, places), {open.card.least, open.card.most});
}

CardCheck checked(const OpenModel& open, const CheckCommandOptions& options,
                  const Conditions& conditions, const torch::Tensor& data) {
  Progress progress("probing");
  CardCheckOptions check_options;
  check_options.count = options.samples();
  check_options.batch = options.model.batch;
  check_options.seed = options.seed;
  check_options.conditions = conditions;
  check_options.data = data;
  check_options.mask = error_mask(open.card, conditions);
  check_options.on_progress = [&](double done) { progress.update(done); };
  return check_card(open.network, open.card, check_options);
}

void run_check(const CheckCommandOptions& options) {
  if (options.samples() < 2) {
    throw usage_error("--count must be at least 2, found {}", options.samples());
  }
  const OpenModel open = open_model(options.model);
  if (!open.network) throw usage_error("check takes a model card, found '{}'", open.name);
  const torch::Tensor data = real_samples(open, options);
  const Conditions conditions = check_conditions(open, options);
  const int64_t batch = std::min(options.samples(), options.model.batch);
  const CallReport report = call_network(open, slice(conditions, 0, batch), batch);
  print_call(open, report, batch);
  if (!report.finite) {
    throw bad_input(
        "{}: the network returns NaN or infinity for noise at t = 0.5; check its weights and "
        "--dtype",
        open.name);
  }
  call_every_class(open, slice(conditions, 0, batch), batch);
  refuse_unless_it_repeats(open.name, report.repeat_difference);
  if (!(report.batch_difference < kMostDifference)) {
    throw bad_input(
        "{}: a sample's output changes with the batch it is in; export the network in eval mode, "
        "and by scripting if tracing fixed the batch",
        open.name);
  }
  const CardCheck check = checked(open, options, conditions, data);
  constexpr size_t kShown = 5;
  const std::string title =
      data.defined() ? fmt::format("Error of denoising {} real samples", options.samples())
                     : fmt::format("Error of denoising the samples of all declarations, {} each",
                                   options.samples());
  fmt::print("\n{}", score_table(check, data.defined(), kShown).render(TableFormat::table, title));
  std::fflush(stdout);
  report_verdict(open, check, data.defined());
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto options = std::make_shared<CheckCommandOptions>();
  options->model.trial = NetworkTrial::none;
  auto* command = app.add_subcommand(
      "check",
      "Load a model card, run the network and test whether the card tells the truth about it.\n"
      "A model file is a program: it can read and write files when it is run. Run only those you "
      "trust.\n\n"
      "Examples:\n  bespoke check model.json\n"
      "  bespoke check model.json --data photos.zip\n"
      "  bespoke check model.json --cond text=prompts.safetensors --device cuda:0");
  command->add_option("MODEL,--model", options->model.model, "a model card (model.json)")
      ->required();
  options->model.add_utterances_to(*command);
  options->model.add_running_to(*command);
  add_condition_options(*command, options->conditions,
                        "condition NAME=VALUE; default: every class in turn");
  command->add_option(
      "--count", options->count,
      "samples drawn per declaration tried (default: 4), or taken from --data (16)");
  command->add_option(
      "--data", options->data,
      "real samples to denoise in place of drawn ones: folder, zip, .safetensors or "
      ".npy; the surest check");
  command->add_option("--seed", options->seed, "of the samples and the noise")
      ->capture_default_str();
  command->callback([options] { run_check(*options); });
}

}  // namespace bespoke
