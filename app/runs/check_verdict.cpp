#include "runs/check_verdict.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"

namespace bespoke {

using namespace detail;

namespace {

nlohmann::json figure(const ScoredCard& scored, double value) {
  if (!scored.drew) return nullptr;
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json("diverged");
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

// By less than a tenth of the range, which no other scale explains.
bool is_nearly_inside(const ModelCard& card, const CardCheck& check) {
  const double margin = 0.1 * (card.most - card.least);
  return check.least > card.least - margin && check.most < card.most + margin;
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
  if (is_nearly_inside(card, check)) return;
  fmt::print(
      "Note: {}. 99 % of them lie in [{:.3g}, {:.3g}]{}: if that is the scale of the data, "
      "value_range should say so. Networks that were trained for a short time leave it, too.\n",
      found, check.least, check.most, told(check.clip));
}

// What the check cannot see: a network that does the same under two declarations tells neither.
void say_what_is_alike(const CardCheck& check) {
  const auto alike = like_the_card(check);
  if (alike.empty()) return;
  fmt::print("Cannot tell these apart: the card, {}.\n", fmt::join(alike, ", "));
}

}  // namespace

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
    if (is_worth_naming(check, real)) return;  // with another key it may draw other values
  }
  advise_on_range(open, check, real);
}

}  // namespace bespoke
