#include "contenders.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "bespoke/base/error.h"
#include "bespoke/distill/best_of_catalogue.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/jobs/pair_maker.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/recipe/error_mask.h"
#include "bespoke/recipe/tensor_samples.h"
#include "noted_file.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kBest[] = "best";  // of the catalogue, on its best grid

// A catalogue solver at every NFE it can spend.
Contenders solvers_of_name(const std::string& text, const FieldDescription& field,
                           const std::vector<int>& nfes) {
  const SolverName name = SolverName::parse(text);
  const CatalogueEntry entry = entry_of(name);
  Contenders found;
  const auto add = [&](int nfe) {
    found.solvers.push_back({text, resolve_solver(name, nfe, field).at()});
  };
  for (const int nfe : nfes) {
    if (entry.steps(nfe) > 0) add(nfe);
  }
  // None fits: building the first one says which would.
  if (found.solvers.empty()) add(nfes.front());
  return found;
}

// The solvers of a file of as many evaluations as are asked for, or its only one.
Contenders solvers_of_file(const std::string& text, const FieldDescription& field,
                           const std::vector<int>& nfes, const Execution& execution) {
  const SolverFile file = read_noted(text, field, execution);
  Contenders found;
  found.files[text] = file;
  if (file.solvers.size() == 1) {
    found.solvers.push_back({text, file.at()});
    return found;
  }
  std::vector<int> missing;
  for (const int nfe : nfes) {
    if (file.has(nfe)) {
      found.solvers.push_back({text, file.at(nfe)});
    } else {
      missing.push_back(nfe);
    }
  }
  if (missing.empty()) return found;
  const std::string lacking = fmt::format("{} has no solver of {} evaluations; it has {}", text,
                                          fmt::join(missing, ", "), fmt::join(file.nfes(), ", "));
  if (found.solvers.empty()) throw bad_input("{}", lacking);
  execution.note(lacking);
  return found;
}

// Pairs that "best" is chosen on: of another seed than any figure.
Pairs selection_pairs(const CompareJob& job, const OpenModel& open, const Execution& execution) {
  constexpr int64_t kCount = 24, kSeed = 0x62657374;
  PairSource source;
  source.seed = kSeed;
  source.count = kCount;
  source.tolerances = {job.tolerance, job.tolerance};
  source.conditions =
      read_conditions(open.card.conditions, job.samples.conditions, kCount, open.utterance_rows);
  return intact_pairs(make_pairs(open, source, execution, "reference for best"), "selection",
                      execution);
}

Contenders best_solvers(const CompareJob& job, const OpenModel& open, const Execution& execution) {
  const Pairs pairs = selection_pairs(job, open, execution);
  TensorSamplesOptions side_by_side;
  side_by_side.device_batch = execution.batch;
  side_by_side.joins_runs = true;
  side_by_side.mask = [&](const Conditions& given) { return error_mask(open.card, given); };
  const Samples samples = tensor_samples(
      std::make_shared<VelocityField>(guided(open, pairs.conditions)), pairs, side_by_side);
  Contenders found;
  for (const int nfe : job.nfes) {
    const std::string what = fmt::format("best of the catalogue, {} NFE", nfe);
    const NamedSolver best = best_of_catalogue(
        samples, nfe, open.field(), [&](double done) { execution.report(what, done); },
        *execution.team);
    found.notes.push_back(fmt::format("{} at {} NFE is {}", kBest, nfe, best.name));
    found.solvers.push_back({kBest, best.solver});
  }
  return found;
}

}  // namespace

Contenders find_contenders(const CompareJob& job, const OpenModel& open,
                           const Execution& execution) {
  const FieldDescription field = open.field();
  std::vector<Contenders> parts(job.solvers.size());
  Contenders all;
  all.nfes = job.nfes;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& text = job.solvers[i];
    if (text == kBest) continue;
    if (!SolverName::parse(text).is_file()) {
      parts[i] = solvers_of_name(text, field, job.nfes);
      continue;
    }
    parts[i] = solvers_of_file(text, field, job.nfes, execution);
    for (const auto& added : parts[i].solvers) all.nfes.push_back(added.solver.nfe());
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (job.solvers[i] == kBest) parts[i] = best_solvers(job, open, execution);
    all.solvers.insert(all.solvers.end(), parts[i].solvers.begin(), parts[i].solvers.end());
    all.files.insert(parts[i].files.begin(), parts[i].files.end());
    all.notes.insert(all.notes.end(), parts[i].notes.begin(), parts[i].notes.end());
  }
  std::sort(all.nfes.begin(), all.nfes.end());
  all.nfes.erase(std::unique(all.nfes.begin(), all.nfes.end()), all.nfes.end());
  return all;
}

}  // namespace bespoke
