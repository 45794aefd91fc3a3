#include "bespoke/distill/guided_search.h"

#include <algorithm>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/mean.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Candidate {
  GuidedFit fit;
  double loss = kInfinity;  // on the judges
};

// Fits one shape after the other.
class ShapeSearch {
 public:
  ShapeSearch(const Samples& training, const Samples& validation, const Schedule& schedule,
              const GuidedSearchOptions& options, Counts* counts)
      : training_(training),
        validation_(validation),
        schedule_(schedule),
        options_(options),
        judges_(first_samples(validation, kJudges)),
        counts_(counts) {}

  // With so many rounds of moving the times. One whose solver is not finite has an infinite loss.
  Candidate fitted(const SolverShape& shape, int rounds) {
    FitSearchOptions fit = options_.fit;
    fit.rounds = rounds;
    if (options_.most_calls > 0) {
      fit.most_calls = std::max<int64_t>(1, options_.most_calls - judging(shape));
    }
    Candidate candidate;
    candidate.fit.family = bns_family(shape, options_.constraints);
    try {
      candidate.fit.start = search_fit(training_, *candidate.fit.family, schedule_, fit, counts_);
      candidate.loss = mean(validation_.log_errors(candidate.fit.start.solver, judges_, counts_));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::diverged) throw;
      problem_ = error.what();
    }
    return candidate;
  }

  // Whether that cannot spend more than there is.
  bool can_afford(const SolverShape& shape, int rounds) const {
    constexpr int64_t kFirstTimes = 3, kTimesOfARound = 6;  // at most, in search_fit
    if (options_.most_calls == 0) return true;
    const int64_t fits = (kFirstTimes + kTimesOfARound * rounds) *
                         std::min(options_.fit.samples, training_.trajectories());
    return counts_->forwards + fits * shape.calls() + judging(shape) <= options_.most_calls;
  }

  const std::string& problem() const { return problem_; }

 private:
  static constexpr int64_t kJudges = 16;

  int64_t judging(const SolverShape& shape) const {
    return static_cast<int64_t>(judges_.size()) * shape.calls();
  }

  const Samples& training_;
  const Samples& validation_;
  const Schedule& schedule_;
  const GuidedSearchOptions& options_;
  std::vector<int64_t> judges_;
  Counts* counts_;
  std::string problem_;
};

bool is_better(const Candidate& left, const Candidate& right) { return left.loss < right.loss; }

// The shapes, the best first; the first of them alone where no other can be afforded.
std::vector<Candidate> ranked(ShapeSearch& search, const std::vector<SolverShape>& shapes,
                              int rounds, const std::function<void(double)>& report) {
  constexpr size_t kWorseInARow = 2;
  std::vector<Candidate> tried;
  double least = kInfinity;
  size_t worse = 0;
  for (const SolverShape& shape : shapes) {
    if (worse == kWorseInARow || (!tried.empty() && !search.can_afford(shape, rounds))) break;
    tried.push_back(search.fitted(shape, rounds));
    worse = tried.back().loss < least ? 0 : worse + 1;
    least = std::min(least, tried.back().loss);
    report(static_cast<double>(tried.size()) / static_cast<double>(shapes.size()));
  }
  std::stable_sort(tried.begin(), tried.end(), is_better);
  return tried;
}

}  // namespace

std::vector<SolverShape> guided_shapes(int calls, int nfe) {
  if (nfe == 0 && (calls < 2 || calls > kMostEvaluations)) {
    throw usage_error("a guided sample takes 2 to {} network calls, found {}", kMostEvaluations,
                      calls);
  }
  if (nfe > 0 && (calls <= nfe || calls > 2 * nfe)) {
    throw usage_error(
        "{} evaluations make {} to {} network calls, one more for each that is guided, found {}",
        nfe, nfe + 1, 2 * nfe, calls);
  }
  if (nfe > 0) return {guided_first(nfe, calls - nfe)};
  std::vector<SolverShape> shapes;
  for (int guided = calls / 2; guided >= 1; --guided) {
    shapes.push_back(guided_first(calls - guided, guided));
  }
  return shapes;
}

GuidedFit search_guided_fit(const Samples& training, const Samples& validation,
                            const Schedule& schedule, const std::vector<SolverShape>& shapes,
                            const GuidedSearchOptions& options, Counts* counts,
                            const std::function<void(double)>& on_progress) {
  constexpr size_t kFinalists = 3;
  const auto report = [&](double begin, double done) {
    if (on_progress) on_progress(begin + 0.5 * done);
  };
  ShapeSearch search(training, validation, schedule, options, counts);
  const bool choice = shapes.size() > 1;
  const std::vector<Candidate> tried = ranked(search, shapes, choice ? 0 : options.fit.rounds,
                                              [&](double done) { report(0, done); });
  Candidate chosen = tried.front();
  const size_t finalists = choice ? std::min(kFinalists, tried.size()) : 0;
  for (size_t i = 0; i < finalists; ++i) {
    const SolverShape shape = tried[i].fit.family->shape();
    if (!search.can_afford(shape, options.fit.rounds)) break;
    Candidate candidate = search.fitted(shape, options.fit.rounds);
    if (is_better(candidate, chosen)) chosen = std::move(candidate);
    report(0.5, static_cast<double>(i + 1) / static_cast<double>(finalists));
  }
  if (chosen.loss == kInfinity) throw Error(ErrorKind::diverged, search.problem());
  return chosen.fit;
}

}  // namespace bespoke
