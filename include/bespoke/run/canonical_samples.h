#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bespoke/run/array_field.h"
#include "bespoke/run/samples.h"

namespace bespoke {

// Samples of a model in the canonical coordinates of its path (path/coordinates.h), from its own
// noise, samples and trajectories: what distillation asks about, so that it finds the same solver
// whatever the model is told in. Solvers given to them, and found on them, are in those
// coordinates.
Samples canonical_samples(const std::shared_ptr<const SampledField>& field, const Array& noise,
                          const Array& x1, std::shared_ptr<const Trajectories> trajectories,
                          EvaluationOptions options = {}, std::vector<int64_t> numbers = {});

}  // namespace bespoke
