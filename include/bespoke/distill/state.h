#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/distill/adam.h"
#include "bespoke/distill/direct.h"
#include "bespoke/distill/match.h"
#include "bespoke/run/counts.h"

namespace bespoke {

// How a solver is found.
//   auto    fit, then direct until another iteration is not worth its calls
//   fit     in closed form from true trajectories, for the best of some sets of times
//   direct  from there by Gauss-Newton with the whole Jacobian, by differences: so many iterations
//   adam    by the published recipe, with gradients of the model
enum class Method { automatic, fit, direct, adam };
std::string to_string(Method method);
Method parse_method(const std::string& name);

// How far one start has come.
struct StartState {
  std::string name;
  std::vector<double> theta;
  int64_t iteration = 0;  // done; all randomness is drawn from (seed, iteration)
  DirectState direct;
  AdamState adam;
  double initial_psnr = 0, validation_psnr = 0, best_psnr = 0;
  double best_error = 0;  // standard error of best_psnr, over the samples
  std::vector<double> best_theta;
  int64_t stale = 0;  // measurements since the last gain
  bool diverged = false;
  std::string message;  // what diverged
};

// How far a distillation has come: everything the next iteration depends on besides the options,
// the field and the pairs. Empty before the first.
struct DistillState {
  // The options it belongs to: a run with others cannot go on from it.
  std::string family;
  int nfe = 0;
  Method method = Method::automatic;
  uint64_t seed = 0;

  std::vector<StartState> starts;
  int64_t chosen = -1;              // the start that goes on; -1 while they are on trial
  std::optional<MatchState> match;  // once the start is done and its statistics are being matched
  Counts screening, training, validation;
  double seconds = 0;

  // The iterations of a start, those that match statistics included.
  int64_t iterations_of(size_t start) const;
};

// Writes a state as JSON; every number reads back as exactly the same double.
std::string to_json_text(const DistillState& state);
DistillState parse_distill_state(const std::string& text, const std::string& source);

}  // namespace bespoke
