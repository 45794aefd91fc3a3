#include <algorithm>
#include <iterator>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/match.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr const char* kMatchNames[] = {"auto", "samples", "both", "distribution"};

}  // namespace

std::string to_string(Match match) { return kMatchNames[static_cast<size_t>(match)]; }

Match parse_match(const std::string& name) {
  const std::vector<std::string> names(std::begin(kMatchNames), std::end(kMatchNames));
  const auto place = std::find(names.begin(), names.end(), name);
  if (place == names.end()) throw usage_error("{}", unknown_name("match", name, names));
  return static_cast<Match>(place - names.begin());
}

bool MatchOptions::has_statistics(int nfe) const {
  constexpr int kFew = 4;  // evaluations, beyond which samples alone are near enough as a set
  if (match == Match::automatic) return features && nfe <= kFew;
  return match != Match::samples;
}

void MatchOptions::validate() const {
  const bool needs_features = match == Match::both || match == Match::distribution;
  if (needs_features && !features) {
    throw usage_error("to match the {} features of samples are needed, and there are none",
                      match == Match::both ? "distribution as well" : "distribution");
  }
  if (!(weight >= 0) || iterations < 0 || !(smoothing >= 0)) {
    throw usage_error("matching needs weight, iterations and smoothing >= 0");
  }
}

int64_t most_match_iterations(const MatchOptions& options, int nfe) {
  constexpr int kDear =
      4;  // evaluations, an iteration of which costs as many calls as two of three
  if (options.iterations > 0) return options.iterations;
  return nfe < kDear ? 4 : 3;
}

double usual_match_weight(Match match, int nfe) {
  constexpr int kFollowsNone = 2, kFollowsMost = 4;  // evaluations
  constexpr double kOfDistribution = 0.1;
  const double both = nfe <= kFollowsNone ? 0.03 : nfe < kFollowsMost ? 0.1 : 0.3;
  return match == Match::distribution ? kOfDistribution * both : both;
}

int64_t usual_match_samples(int64_t features) {
  constexpr int64_t kSamples = 768;
  return std::max(kSamples, 2 * features);
}

}  // namespace bespoke
