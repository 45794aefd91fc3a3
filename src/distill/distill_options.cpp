#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/distill/distill.h"

namespace bespoke {

int64_t DistillOptions::most_iterations() const {
  constexpr int64_t kAuto = 24, kDirect = 6, kAdam = 15000;
  if (method == Method::fit) return 0;
  if (iterations > 0) return iterations;
  if (method == Method::automatic && most_calls > 0) return std::numeric_limits<int64_t>::max();
  return method == Method::adam ? kAdam : method == Method::direct ? kDirect : kAuto;
}

bool DistillOptions::matches_statistics() const {
  return match.has_statistics(nfe > 0 ? nfe : network_calls / 2);
}

namespace {

void check_network_calls(const DistillOptions& options) {
  guided_shapes(options.network_calls, options.nfe);
  if (options.method == Method::adam) {
    throw usage_error(
        "a solver with built-in guidance is found without gradients; take auto, fit or direct "
        "instead "
        "of adam");
  }
  if (options.family || !options.starts.empty()) {
    throw usage_error(
        "a solver with built-in guidance is a bns solver that starts from the fit; give neither a "
        "family nor starts");
  }
}

}  // namespace

void DistillOptions::validate() const {
  if (network_calls != 0) {
    check_network_calls(*this);
  } else {
    check_nfe(nfe);
  }
  if (family && family->nfe() != nfe) {
    throw usage_error("the family spends {} evaluations, {} were asked for", family->nfe(), nfe);
  }
  if (method == Method::fit && (!starts.empty() || (family && !family->is_bns()))) {
    throw usage_error(
        "the fit makes bns solvers from trajectories alone; give it neither a start nor another "
        "family, or take another method");
  }
  match.validate();
  if (starts.empty() && !field.schedule) {
    throw usage_error("automatic starts need to know the schedule of the field");
  }
  if (adam.batch < 1) {
    throw usage_error("adam's batches need at least one sample, found {}", adam.batch);
  }
  if (fit.samples < 1 || fit.rounds < 0 || !(fit.fit.smoothing >= 0)) {
    throw usage_error(
        "the fit needs at least one sample, rounds >= 0 and smoothing >= 0, found {}, {} and {}",
        fit.samples, fit.rounds, fit.fit.smoothing);
  }
  if (direct.batch < 0 || direct.remembered < 0 || direct.judges < 0 || direct.attempts < 0 ||
      !(direct.smoothing >= 0) || !(direct.damping > 0) || !(direct.difference >= 0) ||
      !(direct.time_difference >= 0 && direct.time_difference < 0.5)) {
    throw usage_error(
        "direct needs batch, remembered, judges, attempts and difference >= 0, "
        "smoothing >= 0, damping > 0 and time_difference in [0, 0.5)");
  }
  if (iterations < 0 || most_calls < 0 || reference_forwards < 0 || validation_interval < 0 ||
      patience < 1) {
    throw usage_error(
        "iterations, limits and intervals must not be negative, and patience at least 1");
  }
}

}  // namespace bespoke
