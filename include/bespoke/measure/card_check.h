#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bespoke/model/card.h"
#include "bespoke/model/torchscript.h"

namespace bespoke {

// Does a card tell the truth? A wrong prediction, schedule or way of counting time raises no error;
// it draws bad samples. What the right declaration alone makes true: samples drawn under it, noised
// again as it says, are denoised by the network to what they were. So every declaration is scored
// by the error of the data prediction on its own samples, as a ratio to that of the best linear
// guess (alpha v x + ...) / (alpha^2 v + sigma^2): far below 1 where network and declaration agree.
struct ScoredCard {
  std::string change;  // what it alters in the card, for people; empty for the card as it is
  ModelCard card;
  double score;      // geometric mean over noise levels; infinite where sampling diverged
  double deviation;  // of the samples it draws
  double outside;    // fraction of their values outside the card's range
};

struct CardCheckOptions {
  int64_t count = 16;  // samples per declaration
  int64_t batch = 16;
  uint64_t seed = 0;
  Conditions conditions;                    // of the samples
  std::function<void(double)> on_progress;  // fraction done
};

struct CardCheck {
  ScoredCard declared;
  std::vector<ScoredCard> others;  // single changes, best first
  bool has_better = false;         // the first of them fits clearly better, and fits at all
  bool accepted = false;           // nothing else fits clearly better, and it fits at all
};

CardCheck check_card(const NetworkPtr& network, const ModelCard& card,
                     const CardCheckOptions& options);

}  // namespace bespoke
