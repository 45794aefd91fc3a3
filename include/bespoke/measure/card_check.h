#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/model/card.h"
#include "bespoke/model/network.h"

namespace bespoke {

// Does a card tell the truth? A wrong prediction, schedule or way of counting time raises no error;
// it draws bad samples. This is found out by a tournament. The card and every single change of it
// draw a set of samples each, and every one of them denoises the samples of all. A network read as
// it was trained is about the best denoiser of every set that any of them can denoise. Read
// wrongly it is the best at most on its own set, which may be flat and easy. So an error on one's
// own samples says little, and errors on all sets, relative to the least, are comparable.
//
// Real samples, where there are some, take the place of the sets.
struct ScoredCard {
  std::string change;  // what it alters in the card, for people; empty for the card as it is
  ModelCard card;      // with that change
  // Its squared error on its own samples, or on the real ones, relative to that of the best linear
  // guess: geometric mean over samples and noise levels; infinite where sampling diverged.
  double error;
  // Its error relative to the least of any declaration: geometric mean over the sets that count,
  // those on which some declaration is better than a linear guess. 1: the best on all of them.
  double excess;
  double deviation;  // of the samples it draws, or of the real ones
  double outside;    // fraction of their values outside the card's range
  bool drew = true;  // a set of its own; where it did not, the three above are nothing
};

// What becomes of the samples if the data prediction is clipped to the card's range.
struct ClipTrial {
  double deviation;  // of the samples
  double error;      // the network's on them, to a linear guess's
  // Its error on the samples that the card draws over that: above 1 where only the clipped ones are
  // what it was trained on.
  double gain;
};

// On what a card is checked.
struct CardCheckOptions {
  int64_t count = 4;      // samples per set
  int64_t batch = 64;     // samples computed at once
  uint64_t seed = 0;      // of their noise; what is added to be denoised is of the next seed
  Conditions conditions;  // of the samples of a set
  torch::Tensor data;     // real samples [count, ...]; undefined: none
  // 1 where a number counts, of the samples of a set [count, ...] or of all [1, ...]; undefined:
  // all count. What does not is the network's own business: it is in no figure.
  torch::Tensor mask;
  std::function<void(double)> on_progress;  // fraction done
};

// What the tournament says of a card.
enum class CardVerdict {
  fits,      // the card denoises its own samples, and no other one notably better
  doubtful,  // the card denoises nothing, or another one denoises better on the whole
  wrong,     // another one denoises clearly better on every set that counts, the card's own too
};

// What a check found out about a card.
struct CardCheck {
  ScoredCard declared;             // the card as it is
  std::vector<ScoredCard> others;  // single changes, least excess first
  // Left at doubtful where no set counts, and where no tournament was held (only_lacks_clip).
  CardVerdict verdict = CardVerdict::doubtful;
  int64_t sets = 0;  // that count
  // The error under the card over that under the best other: geometric mean over all sets that
  // count. Above 1 the other is the better one.
  double gain = 1;
  double least_gain = 1;  // the same on the one of these sets where it is least
  // The lower end of where the middle 99 % of the values of its samples, or of the real ones, lie.
  double least = 0;
  double most = 0;  // the upper end of that
  // Tried where many of them lie outside the card's range and the card does not clip.
  std::optional<ClipTrial> clip;
  // A change that denoises no worse than the card, and draws samples that are far more like what
  // the network was trained on: a network that sees for itself how much noise there is denoises
  // alike under schedules that draw otherwise.
  std::optional<ScoredCard> draws_better;
};

// The first of the changes that denoises no worse than the card and its own samples far better, if
// any.
std::optional<ScoredCard> drawing_better(const ScoredCard& declared,
                                         const std::vector<ScoredCard>& others);

// Whether samples that lie outside the card's range are what the network was trained on once they
// are clipped. Where it denoises them worse than a linear guess they are not, whatever they were
// before.
bool needs_clip(const CardCheck& check);

// Whether a missing clip is all that is wrong with them: clipped they are much smaller, or are
// drawn at all. Then nothing else was tried.
bool only_lacks_clip(const CardCheck& check);

// Changes that denoise as well as the card itself, to within what the check can see.
std::vector<std::string> like_the_card(const CardCheck& check);

// Checks a card by the tournament. Where a clip is all that is missing (only_lacks_clip) it ends
// before that, after a look at what the card draws. Bad input where sampling diverges under the
// card and under every change of it.
CardCheck check_card(const NetworkPtr& network, const ModelCard& card,
                     const CardCheckOptions& options);

// The short form of the check, before work that takes long: what a few of the model's own samples
// are like.
struct SampleGlance {
  bool diverged = false;  // some values are not finite; then the two below are nothing
  double deviation = 0;   // of their values
  double outside = 0;     // fraction of them outside [least, most]
};
// Which samples are drawn for a glance, and how.
struct GlanceOptions {
  int64_t count = 4;                   // how many
  int64_t batch = 64;                  // computed at once
  uint64_t seed = 0;                   // of their noise
  torch::Device device = torch::kCPU;  // the model's
  Conditions conditions = {};          // of the samples
  torch::Tensor mask = {};             // as CardCheckOptions::mask
};
// Of samples that were drawn already.
SampleGlance glance_at(const torch::Tensor& samples, double least, double most,
                       const torch::Tensor& mask);
// Of samples roughly drawn for it, at 12 evaluations per sample.
SampleGlance glance_at_samples(const ModelPtr& model, double least, double most,
                               const GlanceOptions& options);
// What is odd about them and what to do, a sentence each; nothing where all is as it should be.
std::vector<std::string> remarks(const SampleGlance& glance, const ModelCard& card);

}  // namespace bespoke
