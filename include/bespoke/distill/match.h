#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bespoke/distill/family.h"
#include "bespoke/run/counts.h"
#include "bespoke/run/samples.h"

namespace bespoke {

// What a solver's samples are to have in common with the reference samples.
//   samples       each sample
//   both          each sample, and the statistics of features: their mean and covariance
//   distribution  the statistics, and hardly anything of each sample
//   auto          both where features are given and evaluations are few, otherwise samples
// Where evaluations are few no solver can follow each trajectory, and the nearest samples are
// blurred: near one by one and wrong as a set.
enum class Match { automatic, samples, both, distribution };
std::string to_string(Match match);
Match parse_match(const std::string& name);

struct MatchOptions {
  Match match = Match::automatic;
  SampleFeatures features;  // where statistics are matched
  // The samples whose statistics are matched, the solver's against the reference from the same
  // noise; null: the training samples. They must outlive the distillation.
  const Samples* samples = nullptr;
  // A number for each of these samples that says which group it is of, such as its class: the
  // statistics of each group are matched apart. None: all are of one group.
  std::vector<int64_t> groups;
  // The weight of the mean log error beside the statistics, in parts of their distance at the
  // start; 0 takes usual_match_weight. At 0.1 a decibel is worth 2.3 % of that distance.
  double weight = 0;
  int64_t iterations = 0;   // at most; 0 takes 4, and 3 from four evaluations on
  double smoothing = 0.05;  // the floor under errors, of their geometric mean

  bool has_statistics(int nfe) const;
  // Checks the options. Throws a usage error that says what is wrong.
  void validate() const;
};

// How far the matching of statistics has come.
struct MatchState {
  std::vector<double> theta;
  double damping = 0;     // 0: not started
  int64_t iteration = 0;  // done
  double floor = 0;       // under the mean square errors; 0: not known
  bool is_over = false;   // another iteration gains next to nothing
  // |r|^2 and the PSNR on the validation samples, of the start and of theta.
  double first_distance = 0, distance = 0;
  double first_psnr = 0, psnr = 0;
  double psnr_error = 0;  // the standard error of psnr
  Counts counts;
};

// Gauss-Newton on |r|^2 + weight |r_0|^2 * mean log error, r_0 being that of the start. r is what
// the statistics of the solver's samples miss those of the model's by, from the same noise,
// weighted so that |r|^2 is a distance of the sets (Statistics::weights). Its Jacobian is made of
// changed runs, as that of the samples, and of features along them: no gradient of the model or of
// the features. It is that of the first of the samples, which is enough for a direction; how far to
// go is judged by all of them. Samples are looked at a batch at a time.
class Matching {
 public:
  // Too few samples for so many features are bad input, and so are features that say nothing.
  Matching(const Samples& samples, FamilyPtr family, const MatchOptions& options);
  ~Matching();

  // Moves state.theta once and returns the objective before.
  double iterate(MatchState& state, Counts* counts);

  // The evaluations without which an iteration cannot be done.
  int64_t least_cost() const;

 private:
  class Problem;
  std::unique_ptr<Problem> problem_;
};

// The most iterations for a solver of so many evaluations.
int64_t most_match_iterations(const MatchOptions& options, int nfe);

// The weight for a solver of so many evaluations: the fewer they are, the less it can follow any
// sample, and the less its errors should count.
double usual_match_weight(Match match, int nfe);

// How many samples to match the statistics of so many features on: 768, or twice as many as
// features.
int64_t usual_match_samples(int64_t features);

}  // namespace bespoke
