#include "bespoke/recipe/learning_sampler.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/distill/fit_search.h"
#include "bespoke/recipe/tensor_samples.h"
#include "bespoke/sample/on_outputs.h"

namespace bespoke {

namespace {

Conditions joined(const Conditions& first, const Conditions& more) {
  Conditions all;
  for (const auto& [name, values] : first) all[name] = torch::cat({values, more.at(name)});
  return all;
}

// Both in a row; of nothing and some, the latter.
Pairs joined(const Pairs& first, const Pairs& more) {
  if (!first.x0.defined()) return more;
  auto trajectories = std::make_shared<DenseTrajectories>(*first.trajectories);
  trajectories->append(*more.trajectories);
  return {torch::cat({first.x0, more.x0}), torch::cat({first.x1, more.x1}),
          joined(first.conditions, more.conditions),
          torch::cat({first.evaluations, more.evaluations}), trajectories};
}

}  // namespace

LearningSampler::LearningSampler(ModelPtr model, LearningOptions options)
    : model_(std::move(model)), options_(std::move(options)) {
  check_nfe(options_.nfe);
  if (options_.samples < 1) {
    throw usage_error("a solver is learnt from at least one sample, found {}", options_.samples);
  }
}

torch::Tensor LearningSampler::sample(const torch::Tensor& x0, const Conditions& conditions,
                                      const Batching& batching) {
  const int64_t count = x0.size(0), known = lesson_.x0.defined() ? lesson_.count() : 0;
  const int64_t first = learnt_ ? 0 : std::min(count, options_.samples - known);
  std::vector<torch::Tensor> parts;
  if (first > 0) {
    parts.push_back(draw_first(x0.slice(0, 0, first), slice(conditions, 0, first), batching));
  }
  if (first < count) {
    if (!learnt_) learnt_ = learn(batching);
    const SolverOnField run = on_outputs(learnt_->solver.solver, model_);
    Batching rest = batching;
    rest.first_sample += first;
    parts.push_back(sample_in_batches(run.solver, *run.field, x0.slice(0, first, count),
                                      slice(conditions, first, count), rest));
  }
  return torch::cat(parts);
}

torch::Tensor LearningSampler::draw_first(const torch::Tensor& x0, const Conditions& conditions,
                                          const Batching& batching) {
  const torch::Tensor noise = x0.to(state_dtype(*model_));
  ReferenceResult drawn = reference_in_batches(model_, noise, conditions, {}, batching, x0.size(0),
                                               options_.evaluations);
  const Pairs more = {noise, drawn.x.to(noise), conditions, drawn.evaluations,
                      std::make_shared<DenseTrajectories>(std::move(drawn.trajectories))};
  lesson_ = joined(lesson_, more);
  return drawn.x.to(noise.scalar_type());
}

LearntSolver LearningSampler::learn(const Batching& batching) const {
  TensorSamplesOptions options;
  options.device_batch = batching.batch;
  options.joins_runs = !lesson_.x0.device().is_cpu();
  options.team = batching.team;
  const Samples samples = canonical_samples(model_, lesson_, options);
  const CoordinatesPtr& coordinates = samples.coordinates();
  FamilyPtr family = bns_family(options_.nfe, options_.constraints);
  if (coordinates) family = family->in_coordinates(coordinates);
  FitSearchOptions search;
  search.samples = lesson_.count();
  search.rounds = 0;
  search.begins_with_likely_ranges = true;
  Counts counts;
  const FoundFit fit =
      search_fit(samples, *family, coordinates ? *coordinates->canonical : *model_->schedule(),
                 search, &counts);
  const NsSolver solver = coordinates ? family->in_own_coordinates(fit.solver) : fit.solver;
  return {{fit.name, solver},
          fit.left_out_loss,
          lesson_.count(),
          lesson_.evaluations.sum().item<int64_t>() + counts.forwards};
}

}  // namespace bespoke
