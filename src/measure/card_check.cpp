#include "bespoke/measure/card_check.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/model/fields.h"
#include "bespoke/path/scale_time.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/noise.h"
#include "card_alternatives.h"

namespace bespoke {

using namespace detail;

namespace {

// sigma / alpha at which samples of deviation 0.5 or more are denoised: low levels, where a network
// knows far more than a linear guess, and high ones, where v and noise predictions, alike near the
// data, part. For less deviation, such as that of sounds, they are as much lower, though not
// without end: next to the data schedules have no room.
constexpr std::array<double, 4> kNoiseLevels = {8, 3, 1, 0.3};
constexpr double kUsualDeviation = 0.5, kLeastScale = 0.05;

// Errors below this part of the linear guess's count alike: at low noise any declaration may be
// nearly exact, and how nearly says nothing. Errors above the most, and those that are no number,
// count alike too.
constexpr double kLeastRatio = 0.05, kMostRatio = 1e12;

// Enough for samples that look like the model's own.
constexpr int kEvaluations = 12;

// A set counts where some declaration's error is below this part of the linear guess's.
constexpr double kDenoised = 0.9;

// The gain of another declaration that is clear on one set, and the number of standard errors it
// must stand above none.
constexpr double kClearGain = 1.1, kStandardErrors = 4;
// The same where no declaration denoises what the card draws. A network that has hardly learnt
// anything draws such samples under its true card, so they are no evidence.
constexpr double kClearGainElsewhere = 1.5;
// A declaration that denoises no worse than the card draws far better if the error on its own
// samples is below this part of that on the card's.
constexpr double kFarBetter = 0.5;
// The gain on the whole that makes a card doubtful: networks denoise alike to within a few per cent
// under schedules that nearly agree.
constexpr double kNotableGain = 1.05;
// The same where the card wins on the sets that it and the other one drew.
constexpr double kLargeGain = 1.5;

// Samples that every declaration denoises: `sets` of `count` samples each.
struct Pool {
  int64_t sets = 0, count = 0;
  std::vector<int64_t> set_of;    // by declaration; -1 where sampling diverged
  torch::Tensor samples;          // [sets * count, ...]
  torch::Tensor noise;            // as samples
  std::vector<double> variances;  // by set
  Conditions conditions;          // [sets * count, ...]
  torch::Tensor mask;             // of the samples of a set; undefined: all numbers count

  torch::Tensor set(int64_t k) const { return samples.slice(0, k * count, (k + 1) * count); }
};

// The values that count, in a row.
torch::Tensor counting(const torch::Tensor& samples, const torch::Tensor& mask) {
  if (!mask.defined()) return samples.flatten();
  return samples.masked_select(mask.to(samples.device(), torch::kBool).expand_as(samples));
}

// About the mean of each value: samples that are all alike leave nothing to denoise.
double mean_variance(const torch::Tensor& set, const torch::Tensor& mask) {
  const torch::Tensor variances = set.to(torch::kDouble).var(0);
  if (!mask.defined()) return variances.mean().item<double>();
  const torch::Tensor parts = mask.to(set.device(), torch::kDouble).mean(0);
  return ((variances * parts).sum() / parts.sum()).item<double>();
}

// The data prediction at x on the model's path.
torch::Tensor denoise(const Model& model, const torch::Tensor& x, double t,
                      const Conditions& conditions) {
  const auto times = torch::full({1}, t, torch::kDouble).expand({x.size(0)});
  const auto output = model.predict(x, times, conditions).to(x.scalar_type());
  const auto weights = data_from(model.prediction(), model.schedule()->at(t));
  return weights.state * x + weights.output * output;
}

// The way of the model's own sampler in the coordinates of the FM-OT path, where every prediction
// is bounded: from where its path begins to where the network is last asked. A path that begins
// with hardly any signal is followed from pure noise.
struct DrawnWay {
  explicit DrawnWay(const Model& model) : last_time(model.schedule()->last_time()) {
    constexpr double kHardlyAny = 0.08;  // SNR
    const Schedule& schedule = *model.schedule();
    const ScaleTimePoint first = from_fm_ot(schedule, 0), last = from_fm_ot(schedule, last_time);
    if (schedule.snr(0) > kHardlyAny) {
      from = first.t;
      start = schedule.source_std() / first.s;
    }
    to = last.t;
    end = last.s;
  }
  // Noise as the solver takes it, which scales it to its first time itself.
  double noise_scale() const { return start / (1 - from); }

  double last_time, from = 0, to = 1;
  double start = 1, end = 1;  // the state of FM-OT is noise times this, and a sample it times this
};

// Samples of the model from standard normal noise; undefined where they diverge.
torch::Tensor draw(const ModelPtr& model, const torch::Tensor& noise, int64_t batch,
                   const Conditions& conditions) {
  const SchedulePtr path = fm_ot_schedule();
  const DrawnWay way(*model);
  const NsSolver solver = make_solver(
      "midpoint", {kEvaluations, path,
                   fmt::format("uniform-t:start={},end={}", exact(way.from), exact(way.to))});
  const RescheduledField field(model, path);
  std::vector<torch::Tensor> parts;
  try {
    for_each_batch(noise.size(0), batch, nullptr, [&](int64_t begin, int64_t end, const auto&) {
      const Conditions own = slice(conditions, begin, end);
      torch::Tensor x =
          way.end * sample(solver, field, way.noise_scale() * noise.slice(0, begin, end), own);
      if (way.last_time < 1) x = denoise(*model, x, way.last_time, own);
      parts.push_back(x);
    });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    return {};
  }
  return torch::cat(parts);
}

// Whether a set is so far from any data that float32 cannot tell its noisy samples from it.
bool is_far_off(const torch::Tensor& samples, const ModelCard& card) {
  constexpr double kFar = 1e4;
  return samples.abs().max().item<double>() > kFar * (card.most - card.least);
}

// Whether the network takes what a change of its card gives it: one that looks its time up in a
// table takes no times between its levels.
bool can_be_called(const Model& model, const torch::Tensor& noise, const Conditions& conditions) {
  try {
    denoise(model, noise.slice(0, 0, 1), 0.5, slice(conditions, 0, 1));
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    return false;
  }
}

double fraction_outside(const torch::Tensor& samples, double least, double most) {
  return samples.lt(least).logical_or(samples.gt(most)).to(torch::kDouble).mean().item<double>();
}

// The rest of a pool, once its sets are known.
void complete(Pool& pool, const std::vector<torch::Tensor>& sets, const CardCheckOptions& options) {
  pool.sets = static_cast<int64_t>(sets.size());
  pool.count = sets.front().size(0);
  pool.samples = torch::cat(sets);
  const auto shape = sets.front().sizes().slice(1).vec();
  pool.noise =
      normal_noise(options.seed + 1, 0, pool.sets * pool.count, shape).to(pool.samples.options());
  pool.mask = options.mask;
  for (const auto& set : sets) pool.variances.push_back(mean_variance(set, pool.mask));
  pool.conditions =
      select(options.conditions, torch::arange(pool.count, torch::kLong).repeat({pool.sets}));
}

Pool pool_of_data(const torch::Tensor& data, size_t declarations, const CardCheckOptions& options) {
  Pool pool;
  pool.set_of.assign(declarations, 0);
  complete(pool, {data}, options);
  return pool;
}

// What every declaration draws from the same noise.
Pool pool_of_samples(const std::vector<Alternative>& declarations,
                     const std::vector<ModelPtr>& models, const torch::Tensor& noise,
                     const CardCheckOptions& options, const std::function<void(double)>& report) {
  Pool pool;
  std::vector<torch::Tensor> sets;
  for (size_t i = 0; i < models.size(); ++i) {
    torch::Tensor samples;
    if (declarations[i].draws) samples = draw(models[i], noise, options.batch, options.conditions);
    if (samples.defined() && is_far_off(samples, declarations[i].card)) samples.reset();
    pool.set_of.push_back(samples.defined() ? static_cast<int64_t>(sets.size()) : -1);
    if (samples.defined()) sets.push_back(samples);
    report(static_cast<double>(pool.set_of.size()) / static_cast<double>(models.size()));
  }
  if (!sets.empty()) complete(pool, sets, options);
  return pool;
}

// The mean squared error of each sample of a set, denoised from about this level: [count] float64,
// relative to that of the linear guess m + v / (v + s^2) (y - m) of the same noisy sample y, with
// s = sigma / alpha and m as far away as the mean of the data.
torch::Tensor relative_errors(const Model& model, const Pool& pool, int64_t set, double level,
                              int64_t batch) {
  // A schedule may end before the level; then it is the end's.
  const double t = model.schedule()->time_at_snr(1 / level);
  const SchedulePoint p = model.schedule()->at(t);
  const double v = pool.variances[static_cast<size_t>(set)];
  const double s = p.sigma / p.alpha;
  const auto mean = pool.set(set).mean(0, true);
  // A sample is a part of the mean of few, which would make the guess better than it is. As far
  // from the sample as the mean of all data is, on average:
  const double apart = std::sqrt(static_cast<double>(pool.count) / (pool.count - 1.0));
  const auto squared = [](const torch::Tensor& difference, const torch::Tensor& mask) {
    return (difference.to(torch::kDouble) * mask).pow(2).flatten(1).mean(1).cpu();
  };
  const torch::Tensor mask =
      (pool.mask.defined() ? pool.mask : torch::ones({1})).to(pool.samples.device());
  std::vector<torch::Tensor> ratios;
  for_each_batch(pool.count, batch, nullptr, [&](int64_t first, int64_t last, const auto&) {
    const int64_t begin = set * pool.count + first, end = set * pool.count + last;
    const auto data = pool.samples.slice(0, begin, end);
    const auto noise = pool.noise.slice(0, begin, end);
    const auto x = p.alpha * data + p.sigma * noise;
    const auto guess = denoise(model, x, t, slice(pool.conditions, begin, end));
    const auto fair = data + apart * (mean - data);
    const auto linear = fair + v / (v + s * s) * (data + s * noise - fair);
    const auto own = mask.size(0) == 1 ? mask : mask.slice(0, first, last);
    ratios.push_back(squared(guess - data, own) / squared(linear - data, own));
  });
  return torch::cat(ratios);
}

// The logarithm of the above, mean over noise levels: [sets, count] float64.
torch::Tensor log_errors(const Model& model, const Pool& pool, int64_t batch) {
  std::vector<torch::Tensor> by_set;
  for (int64_t set = 0; set < pool.sets; ++set) {
    const double deviation = std::sqrt(pool.variances[static_cast<size_t>(set)]);
    const double scale = std::clamp(deviation / kUsualDeviation, kLeastScale, 1.0);
    std::vector<torch::Tensor> by_level;
    for (const double level : kNoiseLevels) {
      const auto errors = relative_errors(model, pool, set, scale * level, batch);
      by_level.push_back(errors.nan_to_num(kMostRatio).clamp(kLeastRatio, kMostRatio).log());
    }
    by_set.push_back(torch::stack(by_level).mean(0));
  }
  return torch::stack(by_set);
}

// What the tournament knows.
struct Scores {
  torch::Tensor logs;    // [declarations, sets, count] float64
  torch::Tensor counts;  // [sets] bool: some declaration denoises the set
};

Scores play(const std::vector<ModelPtr>& models, const Pool& pool, int64_t batch,
            const std::function<void(double)>& report) {
  std::vector<torch::Tensor> logs;
  for (const auto& model : models) {
    logs.push_back(log_errors(*model, pool, batch));
    report(static_cast<double>(logs.size()) / static_cast<double>(models.size()));
  }
  Scores scores;
  scores.logs = torch::stack(logs);
  scores.counts = scores.logs.mean(2).amin(0).lt(std::log(kDenoised));
  return scores;
}

ScoredCard scored(const Alternative& declaration, size_t index, const Pool& pool,
                  const Scores& scores) {
  const double infinity = std::numeric_limits<double>::infinity();
  ScoredCard result{declaration.change, declaration.card, infinity, infinity, infinity, 1,
                    declaration.draws};
  if (scores.counts.any().item<bool>()) {
    const auto by_set = scores.logs.mean(2);
    const auto excess = by_set[static_cast<int64_t>(index)] - by_set.amin(0);
    result.excess = std::exp(excess.masked_select(scores.counts).mean().item<double>());
  }
  const int64_t set = pool.set_of[index];
  if (set < 0) return result;
  result.drew = true;  // or was given real samples
  result.error = std::exp(scores.logs[static_cast<int64_t>(index)][set].mean().item<double>());
  const auto own = counting(pool.set(set), pool.mask);
  result.deviation = own.std().item<double>();
  result.outside = fraction_outside(own, result.card.least, result.card.most);
  return result;
}

// Judges the card, declaration 0, against another one.
void judge(CardCheck& check, size_t other, const Pool& pool, const Scores& scores) {
  check.sets = scores.counts.sum().item<int64_t>();
  if (check.sets == 0) return;
  const auto gains = scores.logs[0] - scores.logs[static_cast<int64_t>(other)];  // of logarithms
  const auto means = gains.mean(1);
  const auto standard_errors = gains.std(1) / std::sqrt(static_cast<double>(pool.count));
  const double least = means.masked_select(scores.counts).min().item<double>();
  check.gain = std::exp(means.masked_select(scores.counts).mean().item<double>());
  check.least_gain = std::exp(least);

  const auto counts = [&](int64_t set) { return set >= 0 && scores.counts[set].item<bool>(); };
  const int64_t own = pool.set_of[0], its = pool.set_of[other];
  const bool certain =
      means.gt(kStandardErrors * standard_errors).masked_select(scores.counts).all().item<bool>();
  const double clear = counts(own) ? kClearGain : kClearGainElsewhere;
  if (certain && check.least_gain > clear && counts(its)) {
    check.verdict = CardVerdict::wrong;
    return;
  }
  // On the two sets that one of the two has drawn, neither is at an advantage.
  double duel = 0;
  for (const int64_t set : {own, its}) {
    if (counts(set)) duel += means[set].item<double>();
  }
  const bool notable =
      check.gain > kLargeGain || std::min(check.gain, std::exp(duel)) > kNotableGain;
  const bool fits = check.declared.error < kDenoised && !notable;
  check.verdict = fits ? CardVerdict::fits : CardVerdict::doubtful;
}

CardCheck ranked(const std::vector<Alternative>& declarations, const Pool& pool,
                 const Scores& scores) {
  CardCheck check;
  check.declared = scored(declarations[0], 0, pool, scores);
  std::vector<ScoredCard> cards;
  for (size_t i = 0; i < declarations.size(); ++i) {
    cards.push_back(scored(declarations[i], i, pool, scores));
  }
  std::vector<size_t> order(declarations.size() - 1);
  std::iota(order.begin(), order.end(), 1);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return cards[a].excess < cards[b].excess; });
  for (const size_t i : order) check.others.push_back(cards[i]);
  // Of several that are as good, one that drew a set can be judged best.
  const auto rival = std::find_if(order.begin(), order.end(), [&](size_t i) {
    return pool.set_of[i] >= 0 && cards[i].excess <= kNotableGain * cards[order.front()].excess;
  });
  judge(check, rival == order.end() ? order.front() : *rival, pool, scores);
  if (check.sets > 0) check.draws_better = drawing_better(check.declared, check.others);
  if (check.draws_better && check.verdict == CardVerdict::fits) {
    check.verdict = CardVerdict::doubtful;
  }
  return check;
}

// Where 99 % of the values lie.
void add_range(CardCheck& check, const torch::Tensor& own) {
  const auto values = std::get<0>(own.to(torch::kDouble).sort());
  const auto at = [&](double share) {
    return values[static_cast<int64_t>(share * static_cast<double>(values.numel() - 1))]
        .item<double>();
  };
  check.least = at(0.005);
  check.most = at(0.995);
}

// The network's error on some samples, read as the card has it, to a linear guess's.
double error_on(const NetworkPtr& network, const ModelCard& card, const torch::Tensor& samples,
                const CardCheckOptions& options) {
  Pool pool;
  complete(pool, {samples}, options);
  const torch::Tensor logs = log_errors(*network_model(network, card), pool, options.batch);
  return std::exp(logs.mean().item<double>());
}

// Clips what the card does not, and looks at what becomes of it. Sets of other declarations tell
// nothing here: samples that have left the range of the data are denoised badly by any clip.
ClipTrial try_clip(const NetworkPtr& network, const ModelCard& card, const torch::Tensor& noise,
                   double error, const CardCheckOptions& options) {
  ModelCard clipped = card;
  clipped.clip = Clip{card.least, card.most};
  const torch::Tensor samples =
      draw(network_model(network, clipped), noise, options.batch, options.conditions);
  if (!samples.defined()) return {0, std::numeric_limits<double>::infinity(), 0};
  const double clipped_error = error_on(network, card, samples, options);
  return {counting(samples, options.mask).std().item<double>(), clipped_error,
          error / clipped_error};
}

constexpr double kManyOutside = 0.05;

// A look at the card's own samples alone: those that leave the range for want of a clip say nothing
// of the other keys, and a tournament of such samples takes long.
CardCheck first_look(const NetworkPtr& network, const ModelCard& card, const torch::Tensor& noise,
                     const CardCheckOptions& options) {
  CardCheck check;
  check.declared = {"", card, 0, 1, 0, 0};
  const torch::Tensor samples =
      draw(network_model(network, card), noise, options.batch, options.conditions);
  if (!samples.defined()) return check;
  const auto own = counting(samples, options.mask);
  check.declared.deviation = own.std().item<double>();
  check.declared.outside = fraction_outside(own, card.least, card.most);
  if (check.declared.outside <= kManyOutside) return check;
  check.declared.error = error_on(network, card, samples, options);
  check.clip = try_clip(network, card, noise, check.declared.error, options);
  add_range(check, own);
  return check;
}

}  // namespace

CardCheck check_card(const NetworkPtr& network, const ModelCard& card,
                     const CardCheckOptions& options) {
  const torch::NoGradGuard no_grad;
  std::vector<Alternative> declarations = {{"", card}};
  std::vector<ModelPtr> models = {network_model(network, card)};
  const torch::Device device = network_device(*network);
  const auto noise = normal_noise(options.seed, 0, options.count, models.front()->sample_shape())
                         .to(device, torch::kFloat);
  const bool real = options.data.defined();
  std::optional<ClipTrial> clip;
  if (!real && !card.clip) {
    CardCheck look = first_look(network, card, noise, options);
    if (only_lacks_clip(look)) return look;
    clip = look.clip;
  }
  for (auto& other : single_changes(card)) {
    const ModelPtr model = network_model(network, other.card);
    if (!can_be_called(*model, noise, options.conditions)) continue;
    models.push_back(model);
    declarations.push_back(std::move(other));
  }
  const auto part = [&](double from, double to) {
    return [&options, from, to](double done) {
      if (options.on_progress) options.on_progress(from + (to - from) * done);
    };
  };
  const double drawn = real ? 0 : 0.2;
  const Pool pool =
      real ? pool_of_data(options.data.to(device, torch::kFloat), models.size(), options)
           : pool_of_samples(declarations, models, noise, options, part(0, drawn));
  if (pool.sets == 0) {
    throw bad_input(
        "sampling diverges under the card and under every single change of it; check the weights "
        "and input_scaling");
  }
  const Scores scores = play(models, pool, options.batch, part(drawn, 1));
  CardCheck check = ranked(declarations, pool, scores);
  const int64_t own = std::max<int64_t>(pool.set_of.front(), 0);
  add_range(check, counting(pool.set(own), pool.mask));
  check.clip = clip;
  return check;
}

std::optional<ScoredCard> drawing_better(const ScoredCard& declared,
                                         const std::vector<ScoredCard>& others) {
  const auto is_better = [&](const ScoredCard& other) {
    return other.drew && other.error < kDenoised && other.excess <= declared.excess &&
           other.error < kFarBetter * declared.error;
  };
  const auto better = std::find_if(others.begin(), others.end(), is_better);
  if (better == others.end()) return {};
  return *better;
}

bool needs_clip(const CardCheck& check) {
  constexpr double kNoWorse = 0.98;
  return check.clip && check.clip->error < 1 && check.clip->gain > kNoWorse;
}

bool only_lacks_clip(const CardCheck& check) {
  constexpr double kMuchSmaller = 0.7;
  return needs_clip(check) && check.clip->deviation < kMuchSmaller * check.declared.deviation;
}

std::vector<std::string> like_the_card(const CardCheck& check) {
  constexpr double kAlike = 1.03;
  std::vector<std::string> changes;
  for (const auto& other : check.others) {
    if (check.sets > 0 && other.excess <= kAlike * check.declared.excess) {
      changes.push_back(other.change);
    }
  }
  return changes;
}

SampleGlance glance_at(const torch::Tensor& samples, double least, double most,
                       const torch::Tensor& mask) {
  if (!samples.isfinite().all().item<bool>()) return {true};
  const torch::Tensor own = counting(samples, mask);
  return {false, own.to(torch::kDouble).std().item<double>(), fraction_outside(own, least, most)};
}

SampleGlance glance_at_samples(const ModelPtr& model, double least, double most,
                               const GlanceOptions& options) {
  const torch::NoGradGuard no_grad;
  const auto noise = normal_noise(options.seed, 0, options.count, model->sample_shape())
                         .to(options.device, state_dtype(*model));
  const torch::Tensor samples = draw(model, noise, options.batch, options.conditions);
  if (!samples.defined()) return {true};
  return glance_at(samples, least, most, options.mask);
}

std::vector<std::string> remarks(const SampleGlance& glance, const ModelCard& card) {
  if (glance.diverged) {
    return {
        "a first look at the model's own samples diverges; 'bespoke check' says whether the card "
        "is right"};
  }
  std::vector<std::string> list;
  constexpr double kManyOutside = 0.25, kFewOfTheRange = 0.02;
  const std::string range = fmt::format("[{}, {}]", card.least, card.most);
  if (glance.outside > kManyOutside) {
    list.push_back(
        fmt::format("a first look at the model's own samples finds {:.0f} % of their values "
                    "outside value_range "
                    "{} (deviation {:.3g}): {} 'bespoke check' says more",
                    100 * glance.outside, range, glance.deviation,
                    card.clip ? "value_range or the card is wrong;"
                              : "its sampler clips (\"clip\"), value_range or the card is wrong;"));
  } else if (glance.deviation < kFewOfTheRange * (card.most - card.least)) {
    list.push_back(
        fmt::format("a first look at the model's own samples finds a deviation of {:.3g} in a "
                    "value_range of {}: "
                    "hardly a picture; 'bespoke check' says whether the card is right",
                    glance.deviation, range));
  }
  return list;
}

}  // namespace bespoke
