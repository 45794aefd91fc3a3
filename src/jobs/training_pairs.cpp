#include "bespoke/jobs/training_pairs.h"

#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/distill/fit_search.h"

namespace bespoke {

namespace {

nlohmann::json describe_pairs(const PairPlan& plan, const TrainingPairs& pairs) {
  return {{"train", pairs.train.count()},
          {"validation", pairs.validation ? pairs.validation->count() : 0},
          {"tolerance", plan.tolerances.rtol},
          {"seeds", {plan.train.seed, plan.validation.seed}},
          {"conditions", plan.conditions}};
}

// Trajectories that a folder keeps make its pairs as good as those made now.
void add_trajectories(Pairs& pairs, const std::string& folder, const PairOwner& owner,
                      const OpenModel& open, Method method) {
  if (method == Method::adam) return;
  pairs.trajectories = read_trajectories(folder, owner, *open.model, pairs.count());
  if (!pairs.trajectories && method == Method::fit) {
    throw bad_input(
        "{} has no trajectories, which --method fit needs; make pairs with 'bespoke pairs "
        "--trajectories', or leave out --pairs",
        folder);
  }
}

int64_t total_evaluations(const Pairs& pairs) { return pairs.evaluations.sum().item<int64_t>(); }

}  // namespace

TrainingPairs read_training_pairs(const std::string& folder, int64_t count, Method method,
                                  const OpenModel& open, const Execution& execution) {
  const PairOwner owner = {open.identity(), open.guidance};
  const auto read = [&](Split split, int64_t most) {
    Pairs pairs = read_pairs(folder, split, owner, most);
    if (split == Split::train) add_trajectories(pairs, folder, owner, open, method);
    return intact_pairs(pairs, to_string(split), execution);
  };
  const PairManifest manifest = read_pair_manifest(folder);
  if (manifest.checksums.empty()) {
    execution.note(folder +
                   " has no checksums, so damage to its files goes unnoticed; the command that "
                   "made it adds them");
  }
  TrainingPairs pairs;
  pairs.train = read(Split::train, count);
  if (manifest.plan.validation.count == 0) {
    throw bad_input(
        "{} has no validation pairs, which choose the best solver; make some with "
        "'bespoke pairs --validation N'",
        folder);
  }
  pairs.validation = read(Split::validation, 0);
  pairs.provenance = describe_pairs(manifest.plan, pairs);
  return pairs;
}

TrainingPairs make_training_pairs(const OpenModel& open, const PairRequest& request,
                                  const Execution& execution) {
  PairMaker maker(open, request, execution);
  // A first look costs calls, which a budget does not have.
  const bool looks_first = request.fixed_evaluations == 0;
  if (looks_first) maker.look_first();
  TrainingPairs pairs;
  pairs.reference_evaluations = maker.choose_reference();
  const auto intact = [&](const Pairs& made, const std::string& what) {
    pairs.reference_evaluations += total_evaluations(made);
    return intact_pairs(made, what, execution);
  };
  pairs.train =
      intact(maker.make(Split::train, FitSearchOptions().samples), to_string(Split::train));
  if (!looks_first) maker.look_at(pairs.train);
  if (request.plan.validation.count > 0) {
    pairs.validation = intact(maker.make(Split::validation), to_string(Split::validation));
  }
  pairs.provenance = describe_pairs(maker.plan(), pairs);
  if (request.matching > 0) {
    pairs.matching = intact(maker.make_matching(), "matching");
    pairs.provenance["matching"] = request.matching;
  }
  if (maker.fixed_evaluations() > 0) {
    pairs.provenance.erase("tolerance");
    pairs.provenance["evaluations"] = maker.fixed_evaluations();
  }
  return pairs;
}

}  // namespace bespoke
