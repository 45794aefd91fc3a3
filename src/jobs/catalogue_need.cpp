#include "catalogue_need.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "bespoke/distill/best_of_catalogue.h"

namespace bespoke {

namespace {

constexpr size_t kFinalists = 3;    // measured on all samples
constexpr size_t kKeptMethods = 4;  // tried at every other number of evaluations

struct Candidate {
  NamedSolver named;
  double psnr = -INFINITY;
};

// In the coordinates it runs in, on any grid.
std::string method_of(const SolverName& name) {
  return to_string(SolverName{"", name.method, "", name.schedule});
}

class Finder {
 public:
  explicit Finder(const CatalogueSearch& search) : search_(search) {}

  CatalogueNeed find() {
    const double target = search_.measured({{"", search_.solver}}, search_.samples).front();
    const auto psnr_at = [&](int at) {
      best_[at] = best_at(at);
      return best_[at].psnr;
    };
    const CostNeeded needed =
        search_cost(search_.first, std::max(search_.first, search_.most), target, psnr_at);
    const auto there = best_.lower_bound(static_cast<int>(std::ceil(needed.cost)));
    return {(there == best_.end() ? best_.rbegin()->second : there->second).named.name, needed};
  }

 private:
  // The best first; those that diverge last.
  std::vector<Candidate> ranked(const std::vector<Candidate>& some, int64_t samples) const {
    std::vector<NamedSolver> solvers;
    for (const Candidate& one : some) solvers.push_back(one.named);
    const std::vector<double> psnr = search_.measured(solvers, samples);
    std::vector<Candidate> list = some;
    for (size_t k = 0; k < list.size(); ++k)
      list[k].psnr = std::isnan(psnr[k]) ? -INFINITY : psnr[k];
    std::stable_sort(list.begin(), list.end(), [](const Candidate& left, const Candidate& right) {
      return left.psnr > right.psnr;
    });
    return list;
  }

  std::vector<Candidate> contenders(int nfe,
                                    const std::function<bool(const SolverName&)>& wanted) const {
    std::vector<Candidate> list;
    for (const auto& named :
         catalogue_contenders(nfe, search_.field, search_.data_deviation, wanted)) {
      list.push_back({named});
    }
    return list;
  }

  // Every method, on two grids.
  std::vector<Candidate> usual(int nfe) const {
    const auto wanted = [](const SolverName& name) {
      return name.grid == "uniform-t" || name.grid == "lambda-range";
    };
    return ranked(contenders(nfe, wanted), 1);
  }

  // The methods to try on every grid: those that do well on one of two.
  void choose_methods(int nfe) {
    for (const Candidate& one : usual(nfe)) {
      if (methods_.size() == kKeptMethods) return;
      methods_.insert(method_of(SolverName::parse(one.named.name)));
    }
  }

  Candidate best_at(int nfe) {
    if (methods_.empty()) choose_methods(nfe);
    const auto kept = [&](const SolverName& name) { return methods_.count(method_of(name)) > 0; };
    std::vector<Candidate> candidates = ranked(contenders(nfe, kept), 1);
    // Methods of two evaluations a step cannot spend an odd number.
    if (candidates.empty()) candidates = usual(nfe);
    candidates.resize(std::min(candidates.size(), kFinalists));
    return ranked(candidates, search_.samples).front();
  }

  const CatalogueSearch& search_;
  std::set<std::string> methods_;  // chosen at the first number of evaluations
  std::map<int, Candidate> best_;  // by evaluations
};

}  // namespace

CatalogueNeed catalogue_need(const CatalogueSearch& search) { return Finder(search).find(); }

}  // namespace bespoke
