#include "bespoke/measure/card_check.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/model/fields.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/noise.h"

namespace bespoke {

using namespace detail;

namespace {

// sigma / alpha at which samples are denoised: low levels, where a network knows far more than a
// linear guess, and high ones, where v and noise predictions, alike near the data, part.
constexpr std::array<double, 4> kNoiseLevels = {8, 3, 1, 0.3};

// Errors below this part of the linear guess's count alike: at low noise any declaration may be
// nearly exact, and how nearly says nothing.
constexpr double kLeastRatio = 0.05;

// Enough for samples that look like the model's own.
constexpr int kEvaluations = 16;

// Another declaration must score this much better before the card's is called wrong: schedules that
// nearly agree score within a few per cent of one another.
constexpr double kClearlyBetter = 0.8;

// Worse than this, a network denoises no better than a linear filter.
constexpr double kFitsAtAll = 0.9;

// Samples of the model, drawn in the coordinates of the FM-OT path, where every prediction is
// bounded.
torch::Tensor draw(const ModelPtr& model, const torch::Tensor& noise, const Conditions& conditions,
                   const std::function<void(double)>& report) {
  const SchedulePtr path = fm_ot_schedule();
  const NsSolver solver = make_solver("midpoint", {kEvaluations, path, "uniform-t"});
  return sample(solver, RescheduledField(model, path), noise, conditions,
                [&](const StepInfo& info) { report((info.step + 1.0) / kEvaluations); });
}

// The data prediction at x on the model's path.
torch::Tensor denoise(const Model& model, const torch::Tensor& x, double t,
                      const Conditions& conditions) {
  const auto times = torch::full({1}, t, torch::kDouble).expand({x.size(0)});
  const auto output = model.predict(x, times, conditions).to(x.scalar_type());
  const auto weights = data_from(model.prediction(), model.schedule()->at(t));
  return weights.state * x + weights.output * output;
}

// The squared errors of a denoiser and of the best linear guess from the same noised samples.
struct Errors {
  double model = 0, linear = 0;
};

Errors denoising_errors(const Model& model, const torch::Tensor& data, const torch::Tensor& noise,
                        double level, const Conditions& conditions) {
  const double t = model.schedule()->time_at_snr(1 / level);
  const SchedulePoint p = model.schedule()->at(t);
  const torch::Tensor x = p.alpha * data + p.sigma * noise;
  const double mean = data.mean().item<double>();
  const double variance = data.var(false).item<double>();
  const double gain = p.alpha * variance / (p.alpha * p.alpha * variance + p.sigma * p.sigma);
  const auto squared_error = [&](const torch::Tensor& guess) {
    return (guess - data).to(torch::kDouble).pow(2).sum().item<double>();
  };
  return {squared_error(denoise(model, x, t, conditions)),
          squared_error(mean + gain * (x - p.alpha * mean))};
}

// How the samples, and their denoising, came out in the end.
void score_samples(const ModelPtr& model, const torch::Tensor& samples,
                   const CardCheckOptions& options, ScoredCard& fit) {
  const auto noise =
      normal_noise(options.seed + 1, 0, options.count, model->sample_shape()).to(samples);
  double log_ratio = 0;
  for (const double level : kNoiseLevels) {
    Errors sum;
    for_each_batch(
        options.count, options.batch, nullptr, [&](int64_t begin, int64_t end, const auto&) {
          const auto errors =
              denoising_errors(*model, samples.slice(0, begin, end), noise.slice(0, begin, end),
                               level, slice(options.conditions, begin, end));
          sum.model += errors.model;
          sum.linear += errors.linear;
        });
    log_ratio += std::log(std::max(sum.model / sum.linear, kLeastRatio)) / kNoiseLevels.size();
  }
  fit.score = std::isfinite(log_ratio) ? std::exp(log_ratio) : fit.score;
  fit.deviation = samples.std().item<double>();
  fit.outside = samples.lt(fit.card.least)
                    .logical_or(samples.gt(fit.card.most))
                    .to(torch::kDouble)
                    .mean()
                    .item<double>();
}

// A card that differs from another in one declaration.
struct Alternative {
  std::string change;
  ModelCard card;
};

Alternative changed(const ModelCard& card, const std::string& change,
                    const std::function<void(ModelCard&)>& edit) {
  Alternative other{change, card};
  edit(other.card);
  return other;
}

void add_other_predictions(const ModelCard& card, std::vector<Alternative>& list) {
  for (const auto& name : prediction_names()) {
    const Prediction prediction = parse_prediction(name);
    if (prediction == card.prediction) continue;
    list.push_back(changed(card, fmt::format("prediction \"{}\"", name),
                           [&](ModelCard& other) { other.prediction = prediction; }));
  }
}

void add_other_times(const ModelCard& card, std::vector<Alternative>& list) {
  const bool forwards = card.time.convention == TimeConvention::noise_to_data;
  if (!forwards && card.time.convention != TimeConvention::data_to_noise) return;
  const auto reversed = forwards ? TimeConvention::data_to_noise : TimeConvention::noise_to_data;
  list.push_back(changed(
      card,
      fmt::format("time.convention \"{}\"", time_convention_names()[static_cast<size_t>(reversed)]),
      [&](ModelCard& other) { other.time.convention = reversed; }));
  const double scale = card.time.scale == 1 ? 1000 : 1;
  list.push_back(changed(card, fmt::format("time.scale {}", scale),
                         [&](ModelCard& other) { other.time.scale = scale; }));
}

void add_other_schedules(const ModelCard& card, std::vector<Alternative>& list) {
  for (const auto& entry : schedule_registry()) {
    if (entry.name == card.schedule->name()) continue;
    const SchedulePtr schedule = make_schedule(entry.name);
    list.push_back(changed(card, fmt::format("schedule \"{}\"", entry.name),
                           [&](ModelCard& other) { other.schedule = schedule; }));
  }
}

// Another prediction, the other direction of time, another scale of it, another schedule: whatever
// a card may say.
std::vector<Alternative> alternatives(const ModelCard& card) {
  std::vector<Alternative> list;
  add_other_predictions(card, list);
  add_other_times(card, list);
  add_other_schedules(card, list);
  const auto impossible = [](const Alternative& other) {
    return !combination_problem(other.card).empty();
  };
  list.erase(std::remove_if(list.begin(), list.end(), impossible), list.end());
  return list;
}

ScoredCard fit(const NetworkPtr& network, const ModelCard& card, const CardCheckOptions& options) {
  const torch::NoGradGuard no_grad;
  const ModelPtr model = network_model(network, card);
  const auto noise = normal_noise(options.seed, 0, options.count, card.sample_shape)
                         .to(network_device(*network), torch::kFloat);
  ScoredCard result{"", card, std::numeric_limits<double>::infinity(), 0, 0};
  std::vector<torch::Tensor> parts;
  try {
    for_each_batch(options.count, options.batch, options.on_progress,
                   [&](int64_t begin, int64_t end, const auto& report) {
                     parts.push_back(draw(model, noise.slice(0, begin, end),
                                          slice(options.conditions, begin, end), report));
                   });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    return result;
  }
  score_samples(model, torch::cat(parts), options, result);
  return result;
}

}  // namespace

CardCheck check_card(const NetworkPtr& network, const ModelCard& card,
                     const CardCheckOptions& options) {
  const auto others = alternatives(card);
  size_t done = 0;
  const auto run = [&](const std::string& change, const ModelCard& declared) {
    CardCheckOptions one = options;
    one.on_progress = [&](double part) {
      if (!options.on_progress) return;
      options.on_progress((static_cast<double>(done) + part) /
                          static_cast<double>(others.size() + 1));
    };
    ScoredCard result = fit(network, declared, one);
    result.change = change;
    ++done;
    return result;
  };
  CardCheck check;
  check.declared = run("", card);
  for (const auto& other : others) check.others.push_back(run(other.change, other.card));
  std::stable_sort(check.others.begin(), check.others.end(),
                   [](const ScoredCard& a, const ScoredCard& b) { return a.score < b.score; });
  const double best = check.others.front().score;
  check.has_better = best < kFitsAtAll && best < kClearlyBetter * check.declared.score;
  check.accepted = check.declared.score < kFitsAtAll && !check.has_better;
  return check;
}

}  // namespace bespoke
