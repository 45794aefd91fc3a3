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
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw usage_error("{}", unknown_name("match", name, names));
  return static_cast<Match>(found - names.begin());
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

int64_t most_match_iterations(const MatchOptions& options) {
  constexpr int64_t kIterations = 4;
  return options.iterations > 0 ? options.iterations : kIterations;
}

}  // namespace bespoke
