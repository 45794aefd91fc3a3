#include <fmt/ranges.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/table.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/measure/card_check.h"
#include "bespoke/model/network_trial.h"
#include "bespoke/recipe/error_mask.h"
#include "commands/commands.h"
#include "options/condition_options.h"
#include "options/model_options.h"
#include "runs/real_data.h"

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

bool is_differentiable(const Model& model, const torch::Tensor& x, const torch::Tensor& t,
                       const Conditions& conditions) {
  const auto output = model.predict(x, t, conditions);
  if (!output.requires_grad()) return false;
  return torch::autograd::grad({output.sum()}, {x})[0].isfinite().all().item<bool>();
}

CallReport call_network(const OpenModel& open, const Conditions& conditions, int64_t count) {
  std::vector<int64_t> shape = open.card.sample_shape;
  shape.insert(shape.begin(), count);
  const auto x = torch::randn(shape, torch::kFloat).to(open.device, open.state_dtype());
  const auto t = torch::full({1}, 0.5, torch::kDouble).expand({count});
  const auto call = [&] {
    return open.model->predict(x, t, conditions).to(torch::kCPU);  // waits for the device too
  };
  CallReport report{};
  {
    const torch::NoGradGuard no_grad;
    const torch::Tensor output = call();  // the first call also prepares the network
    report.seconds = seconds_of(call) / static_cast<double>(count);
    report.finite = output.isfinite().all().item<bool>();
  }
  report.batch_difference = batch_difference(*open.model, x, t, conditions);
  const auto input = x.slice(0, 0, 1).clone().requires_grad_(true);
  report.differentiable =
      has_gradients(*open.network) &&
      is_differentiable(*open.model, input, t.slice(0, 0, 1), slice(conditions, 0, 1));
  report.megabytes = peak_megabytes();
  return report;
}

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

// The classes to call: all of them, or as many as are enough to see a table that is too small.
std::vector<int64_t> classes_to_call(const ConditionCard& condition) {
  constexpr int64_t kMost = 256;
  std::vector<int64_t> classes;
  const int64_t count = std::min(condition.classes, kMost);
  for (int64_t i = 0; i < count; ++i) {
    classes.push_back(count == 1 ? 0 : i * (condition.classes - 1) / (count - 1));
  }
  if (condition.null >= condition.classes) classes.push_back(condition.null);
  return classes;
}

// Calls the network on every class, null included, beside what else it is given.
void call_every_class(const OpenModel& open, const Conditions& conditions, int64_t batch) {
  const torch::NoGradGuard no_grad;
  std::vector<int64_t> shape = open.card.sample_shape;
  shape.insert(shape.begin(), batch);
  const auto noise = torch::randn(shape, torch::kFloat).to(open.device, open.state_dtype());
  for (const auto& condition : open.card.conditions) {
    if (condition.is_tensor()) continue;
    const auto classes = classes_to_call(condition);
    for (size_t begin = 0; begin < classes.size(); begin += static_cast<size_t>(batch)) {
      const auto count =
          std::min(batch, static_cast<int64_t>(classes.size()) - static_cast<int64_t>(begin));
      Conditions given = slice(conditions, 0, count);
      given[condition.name] = torch::tensor(
          std::vector<int64_t>(classes.begin() + static_cast<std::ptrdiff_t>(begin),
                               classes.begin() + static_cast<std::ptrdiff_t>(begin) + count),
          torch::kLong);
      const auto t = torch::full({1}, 0.5, torch::kDouble).expand({count});
      const auto output = open.model->predict(noise.slice(0, 0, count), t, given);
      const auto finite = output.flatten(1).isfinite().all(1).to(torch::kCPU);
      for (int64_t i = 0; i < count; ++i) {
        if (finite[i].item<bool>()) continue;
        throw bad_input("{}: the network returns NaN or infinity for {} = {}", open.name,
                        condition.name, classes[begin + static_cast<size_t>(i)]);
      }
    }
  }
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
      read_real_samples(option, options.data, {open.card.sample_shape, open.card.sample_rate});
  const int64_t count = options.samples();
  if (all.size(0) < count) {
    throw bad_input("{}: has {} samples, the check takes {}; give more data or a smaller --count",
                    option, all.size(0), count);
  }
  const auto places = torch::arange(count, torch::kLong) * (all.size(0) / count);
  return in_value_range(all.index_select(0, places), {open.card.least, open.card.most});
}

nlohmann::json figure(const ScoredCard& scored, double value) {
  if (!scored.drew) return nullptr;
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json("diverged");
}

Table score_table(const CardCheck& check, bool real, size_t most) {
  Table table({{"declaration"},
               {real ? "relative to the least" : "all sets, relative to the least", true, 3},
               {real ? "to a linear guess" : "own set, to a linear guess", true, 3},
               {"sample deviation", true, 3}});
  const auto add = [&](const ScoredCard& scored, const std::string& name) {
    const nlohmann::json excess = check.sets > 0 ? nlohmann::json(scored.excess) : nullptr;
    table.add_row({name, excess, figure(scored, scored.error), figure(scored, scored.deviation)});
  };
  add(check.declared, "the card");
  for (size_t i = 0; i < std::min(most, check.others.size()); ++i) {
    add(check.others[i], check.others[i].change);
  }
  return table;
}

// The changes that fit as well as the best one: schedules may differ in name more than in numbers.
std::string best_changes(const CardCheck& check) {
  constexpr double kAsGood = 1.02;
  std::vector<std::string> changes;
  for (const auto& other : check.others) {
    if (other.excess <= kAsGood * check.others.front().excess) changes.push_back(other.change);
  }
  return fmt::format("{}", fmt::join(changes, " or "));
}

// What speaks for the best change, in one clause.
std::string evidence(const CardCheck& check, bool real) {
  const auto percent = [](double gain) { return 100 * (1 - 1 / gain); };
  const std::string clause = fmt::format("with {} its denoising error is {:.0f} % lower",
                                         best_changes(check), percent(check.gain));
  if (real) return clause + " on the real samples";
  const std::string each = check.least_gain > 1 ? fmt::format("and at least {:.0f} % lower on each",
                                                              percent(check.least_gain))
                                                : "though not on each";
  return fmt::format("{} over {} sets of samples, {}", clause, check.sets, each);
}

// Whether the best change is worth naming: one that denoises neither its own samples nor leaves the
// card to denoise its own says how little the network has learnt, not what is wrong.
bool is_worth_naming(const CardCheck& check, bool real) {
  constexpr double kNotable = 1.05, kDenoised = 0.9;
  if (check.sets == 0 || check.gain <= kNotable) return false;
  const ScoredCard& best = check.others.front();
  return real || !best.drew || best.error < kDenoised || check.declared.error < kDenoised;
}

void warn_of_doubt(const OpenModel& open, const CardCheck& check, bool real) {
  if (is_worth_naming(check, real)) {
    say("bespoke: warning: {} may not describe this network: {}; see whether the card's key is "
        "right{}",
        open.name, evidence(check, real), real ? "" : ", or give real samples with --data");
    return;
  }
  if (check.draws_better) {
    say("bespoke: warning: {} may not describe this network: with {} it denoises as well, and "
        "draws "
        "samples that are far more like its data (denoised with {:.2f} of a linear guess's error, "
        "where the card's are with {:.2f}); see whether the card's key is right, or give real "
        "samples with --data",
        open.name, check.draws_better->change, check.draws_better->error, check.declared.error);
    return;
  }
  say("bespoke: warning: under {} the network denoises {} samples badly (error {:.2f}, 1 is a "
      "linear guess's) and under no single change it does much better; check sample_shape, "
      "value_range, "
      "input_scaling and the weights",
      open.name, real ? "the real" : "its own", check.declared.error);
}

// What clipping samples to the range did to them, where it is not what they lack.
std::string told(const std::optional<ClipTrial>& clip) {
  if (!clip) return "";
  if (clip->gain < 1) {
    return fmt::format(", and clipped to value_range the network denoises {:.0f} % worse",
                       100 * (1 / clip->gain - 1));
  }
  return fmt::format(
      ", and clipped to value_range they have a deviation of {:.3g} and are denoised no better "
      "than by a linear guess ({:.2f} of its error)",
      clip->deviation, clip->error);
}

// Values outside the range: the model clips, or its data has another scale.
void advise_on_range(const OpenModel& open, const CardCheck& check, bool real) {
  constexpr double kManyOutside = 0.05;
  const ModelCard& card = open.card;
  if (check.declared.outside <= kManyOutside || !std::isfinite(check.declared.deviation)) return;
  const std::string found =
      fmt::format("{:.0f} % of the {} values lie outside value_range [{}, {}]",
                  100 * check.declared.outside, real ? "real" : "sample", card.least, card.most);
  if (needs_clip(check)) {
    fmt::print(
        "Note: {}. Clipped to it at every evaluation the samples have a deviation of {:.3f} "
        "instead of {:.3f}, and the network denoises no worse: if its sampler clips (clip_sample, "
        "clip_denoised, thresholding), the card needs \"clip\": true.\n",
        found, check.clip->deviation, check.declared.deviation);
    return;
  }
  fmt::print(
      "Note: {}. 99 % of them lie in [{:.3g}, {:.3g}]{}: if that is the scale of the data, "
      "value_range should say so.\n",
      found, check.least, check.most, told(check.clip));
}

// What the check cannot see: a network that does the same under two declarations tells neither.
void say_what_is_alike(const CardCheck& check) {
  const auto alike = like_the_card(check);
  if (alike.empty()) return;
  fmt::print("Cannot tell these apart: the card, {}.\n", fmt::join(alike, ", "));
}

void report_verdict(const OpenModel& open, const CardCheck& check, bool real) {
  if (check.verdict == CardVerdict::fits) {
    fmt::print("\nThe card fits: prediction, schedule and time agree with the network.\n");
    say_what_is_alike(check);
  } else if (only_lacks_clip(
                 check)) {  // what is drawn out of range tells nothing of the other keys
    say("bespoke: warning: the samples of {} leave value_range, and clipped to it they are what "
        "the network denoises: add \"clip\" before you change other keys",
        open.name);
  } else if (check.verdict == CardVerdict::wrong) {
    throw bad_input("{} does not describe this network: {}; change that key", open.name,
                    evidence(check, real));
  } else {
    warn_of_doubt(open, check, real);
  }
  advise_on_range(open, check, real);
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
  if (!(report.batch_difference < kMostBatchDifference)) {
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
  command->add_option("MODEL", options->model.model, "a model card (model.json)")->required();
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
