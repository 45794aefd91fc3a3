#include <fmt/ranges.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "bespoke/base/error.h"
#include "bespoke/base/progress.h"
#include "bespoke/measure/card_check.h"
#include "bespoke/report/table.h"
#include "commands/commands.h"
#include "options/condition_options.h"
#include "options/model_options.h"

namespace bespoke {

namespace {

struct CheckCommandOptions {
  ModelOptions model;
  std::vector<std::string> conditions;
  int64_t count = 16;
};

// What calling the network once shows: its cost, and that it treats samples one by one.
struct CallReport {
  double seconds;           // per sample and evaluation, in the batch
  double megabytes;         // of memory, at most
  double batch_difference;  // largest, between a sample alone and in the batch
  bool finite;              // on noise
  bool differentiable;      // in x
};

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

template <class Work>
double seconds_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double relative_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>() / (b.abs().max().item<double>() + 1e-30);
}

CallReport call_network(const OpenModel& open, const Conditions& conditions, int64_t count) {
  std::vector<int64_t> shape = open.card.sample_shape;
  shape.insert(shape.begin(), count);
  const auto x = torch::randn(shape, torch::kFloat).to(open.device, open.state_dtype());
  const auto t = torch::full({1}, 0.5, torch::kDouble).expand({count});
  const auto call = [&](int64_t end) {
    return open.model->predict(x.slice(0, 0, end), t.slice(0, 0, end), slice(conditions, 0, end))
        .to(torch::kCPU, torch::kDouble);  // waits for the device too
  };
  CallReport report{};
  torch::Tensor together, alone;
  {
    const torch::NoGradGuard no_grad;
    together = call(count);  // the first call also prepares the network
    report.seconds = seconds_of([&] { call(count); }) / static_cast<double>(count);
    alone = call(1);
  }
  report.finite = together.isfinite().all().item<bool>();
  report.batch_difference = relative_difference(together.slice(0, 0, 1), alone);
  const auto input = x.slice(0, 0, 1).clone().requires_grad_(true);
  const auto output = open.model->predict(input, t.slice(0, 0, 1), slice(conditions, 0, 1));
  if (output.requires_grad()) {
    const auto gradient = torch::autograd::grad({output.sum()}, {input})[0];
    report.differentiable = gradient.isfinite().all().item<bool>();
  }
  report.megabytes = peak_megabytes();
  return report;
}

void print_call(const OpenModel& open, const CallReport& report, int64_t count) {
  const auto& card = open.card;
  fmt::print("{}\n  network      {:.1f} M parameters, samples {}, on {}\n", open.title(),
             static_cast<double>(parameter_count(*open.network)) / 1e6,
             fmt::join(card.sample_shape, " x "), open.device.str());
  fmt::print("  evaluation   {:.2f} ms a sample in a batch of {}, process memory {:.0f} MB\n",
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
  fmt::print("  gradient     {}\n", report.differentiable
                                        ? "differentiable in x: it can be distilled"
                                        : "not differentiable in x: it cannot be distilled");
}

// Conditions for the check: what was given, otherwise every class in turn.
Conditions check_conditions(const OpenModel& open, const CheckCommandOptions& options) {
  auto texts = options.conditions;
  for (const auto& condition : open.card.conditions) {
    const bool given = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return text.rfind(condition.name + "=", 0) == 0;
    });
    if (given || condition.is_tensor()) continue;
    const int64_t last = std::min(condition.classes, options.count) - 1;
    texts.push_back(fmt::format("{}=0-{}", condition.name, last));
  }
  return read_conditions(open.card.conditions, texts, options.count);
}

Table score_table(const CardCheck& check, size_t most) {
  Table table({{"declaration"}, {"denoising error", true, 3}, {"sample deviation", true, 3}});
  const auto add = [&](const ScoredCard& fit, const std::string& name) {
    const nlohmann::json diverged = "diverged";
    const bool finite = std::isfinite(fit.score);
    table.add_row({name, finite ? nlohmann::json(fit.score) : diverged,
                   finite ? nlohmann::json(fit.deviation) : diverged});
  };
  add(check.declared, "the card");
  for (size_t i = 0; i < std::min(most, check.others.size()); ++i) {
    add(check.others[i], check.others[i].change);
  }
  return table;
}

// The changes that fit as well as the best one: schedules may differ in name more than in numbers.
std::string best_changes(const CardCheck& check) {
  constexpr double kAsGood = 1.05;
  std::vector<std::string> changes;
  for (const auto& other : check.others) {
    if (other.score <= kAsGood * check.others.front().score) changes.push_back(other.change);
  }
  return fmt::format("{}", fmt::join(changes, " or "));
}

[[noreturn]] void reject(const OpenModel& open, const CardCheck& check) {
  const ScoredCard& best = check.others.front();
  if (check.has_better) {
    throw bad_input(
        "{} does not describe this network: with {} its denoising error falls from {} to {:.3f}; "
        "change that key",
        open.name, best_changes(check),
        std::isfinite(check.declared.score) ? fmt::format("{:.3f}", check.declared.score)
                                            : "divergence",
        best.score);
  }
  throw bad_input(
      "{} does not describe this network (denoising error {}, 1 is that of a linear guess), "
      "and no single change of prediction, time or schedule does; check sample_shape, "
      "value_range, input_scaling and the weights, and that the network is trained",
      open.name,
      std::isfinite(check.declared.score) ? fmt::format("{:.3f}", check.declared.score)
                                          : "infinite");
}

void run_check(const CheckCommandOptions& options) {
  constexpr double kBatchTolerance = 1e-2;
  if (options.count < 2) throw usage_error("--count must be at least 2, found {}", options.count);
  const OpenModel open = open_model(options.model);
  if (!open.network) throw usage_error("check takes a model card, found '{}'", open.name);
  const Conditions conditions = check_conditions(open, options);
  const int64_t batch = std::min(options.count, options.model.batch);
  const CallReport report = call_network(open, slice(conditions, 0, batch), batch);
  print_call(open, report, batch);
  if (!report.finite) {
    throw bad_input(
        "{}: the network returns NaN or infinity for noise at t = 0.5; check its weights and "
        "--dtype",
        open.name);
  }
  if (!(report.batch_difference < kBatchTolerance)) {
    throw bad_input(
        "{}: a sample's output changes with the batch it is in; export the network in eval mode, "
        "and by scripting if tracing fixed the batch",
        open.name);
  }
  CardCheck result;
  {
    Progress progress("probing");
    CardCheckOptions check_options;
    check_options.count = options.count;
    check_options.batch = batch;
    check_options.conditions = conditions;
    check_options.on_progress = [&](double done) { progress.update(done); };
    result = check_card(open.network, open.card, check_options);
  }
  constexpr size_t kShown = 5;
  fmt::print("\n{}", score_table(result, kShown)
                         .render(TableFormat::table,
                                 "Error of denoising its own samples, relative to a linear guess "
                                 "(lower fits better)"));
  std::fflush(stdout);
  if (!result.accepted) reject(open, result);
  fmt::print("\nThe card fits: prediction, schedule and time agree with the network.\n");
  constexpr double kManyOutside = 0.05;
  if (result.declared.outside > kManyOutside) {
    fmt::print("Note: {:.0f} % of the sample values lie outside value_range [{}, {}].\n",
               100 * result.declared.outside, open.card.least, open.card.most);
  }
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto options = std::make_shared<CheckCommandOptions>();
  auto* command = app.add_subcommand(
      "check",
      "Load a model card, run the network and test whether the card tells the truth about it.\n"
      "A TorchScript file is a program: it can read and write files when it is run. Run only those "
      "you trust.\n\n"
      "Examples:\n  bespoke check model.json\n"
      "  bespoke check model.json --cond text=prompts.safetensors --device cuda:0");
  command->add_option("MODEL", options->model.model, "a model card (model.json)")->required();
  options->model.add_running_to(*command);
  command->add_option("--cond", options->conditions,
                      "condition NAME=VALUE; default: every class in turn");
  command->add_option("--count", options->count, "samples drawn per declaration tried")
      ->capture_default_str();
  command->callback([options] { run_check(*options); });
}

}  // namespace bespoke
