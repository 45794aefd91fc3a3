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
  ShapeSearch(const Objective& training, const Objective& validation, const Schedule& schedule,
              const BnsConstraints& constraints, Counts* counts)
      : training_(training),
        validation_(validation),
        schedule_(schedule),
        constraints_(constraints),
        judges_(first_samples(validation, kJudges)),
        counts_(counts) {}

  // One whose solver is not finite has an infinite loss.
  Candidate fitted(const SolverShape& shape, const FitSearchOptions& options) {
    Candidate candidate;
    candidate.fit.family = bns_family(shape, constraints_);
    try {
      candidate.fit.start =
          search_fit(training_, *candidate.fit.family, schedule_, options, counts_);
      candidate.loss = mean(validation_.log_errors(candidate.fit.start.solver, judges_, counts_));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::diverged) throw;
      problem_ = error.what();
    }
    return candidate;
  }

  const std::string& problem() const { return problem_; }

 private:
  static constexpr int64_t kJudges = 16;

  const Objective& training_;
  const Objective& validation_;
  const Schedule& schedule_;
  const BnsConstraints& constraints_;
  std::vector<int64_t> judges_;
  Counts* counts_;
  std::string problem_;
};

bool is_better(const Candidate& left, const Candidate& right) { return left.loss < right.loss; }

// The best shapes on few times, the best first.
std::vector<SolverShape> finalists(ShapeSearch& search, const std::vector<SolverShape>& shapes,
                                   const FitSearchOptions& options,
                                   const std::function<void(double)>& on_progress) {
  constexpr size_t kFinalists = 3, kWorseInARow = 2;
  if (shapes.size() == 1) return shapes;
  FitSearchOptions few = options;
  few.rounds = 0;
  std::vector<Candidate> tried;
  double least = kInfinity;
  for (size_t worse = 0; tried.size() < shapes.size() && worse < kWorseInARow;) {
    tried.push_back(search.fitted(shapes[tried.size()], few));
    worse = tried.back().loss < least ? 0 : worse + 1;
    least = std::min(least, tried.back().loss);
    if (on_progress) {
      on_progress(0.5 * static_cast<double>(tried.size()) / static_cast<double>(shapes.size()));
    }
  }
  std::stable_sort(tried.begin(), tried.end(), is_better);
  std::vector<SolverShape> best;
  for (size_t i = 0; i < std::min(kFinalists, tried.size()); ++i) {
    best.push_back(tried[i].fit.family->shape());
  }
  return best;
}

}  // namespace

std::vector<SolverShape> guided_shapes(int calls, int nfe) {
  if (nfe == 0 && calls < 2) {
    throw usage_error("a guided sample takes at least 2 network calls, found {}", calls);
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

GuidedFit search_guided_fit(const Objective& training, const Objective& validation,
                            const Schedule& schedule, const std::vector<SolverShape>& shapes,
                            const BnsConstraints& constraints, const FitSearchOptions& options,
                            Counts* counts, const std::function<void(double)>& on_progress) {
  ShapeSearch search(training, validation, schedule, constraints, counts);
  const std::vector<SolverShape> best = finalists(search, shapes, options, on_progress);
  Candidate chosen;
  for (size_t i = 0; i < best.size(); ++i) {
    Candidate candidate = search.fitted(best[i], options);
    if (is_better(candidate, chosen)) chosen = std::move(candidate);
    if (on_progress) {
      on_progress(0.5 + 0.5 * static_cast<double>(i + 1) / static_cast<double>(best.size()));
    }
  }
  if (chosen.loss == kInfinity) throw Error(ErrorKind::diverged, search.problem());
  return chosen.fit;
}

}  // namespace bespoke
