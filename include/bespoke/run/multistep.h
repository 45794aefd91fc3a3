#pragma once

#include "bespoke/run/adaptive.h"

namespace bespoke {

// The fewest evaluations that integrate_multistep can do with.
constexpr int64_t kFewestEvaluations = 12;

// The number of evaluations with which samples are 55 to 70 dB from the truth.
constexpr int64_t kUsualEvaluations = 30;

// Integrates a problem on the FM-OT path, whose slope is D - E, over [options.start, options.end]
// by so many evaluations: exponential steps of order three (solver/exponential_step.h) on times
// that are the same for all samples, each corrected by the evaluation at its end. `last` is the
// latest time the slope can be asked at; beyond the last evaluation its data prediction is taken.
// Recorded are the states at the evaluations, and in the middles what six evaluations about them
// say.
IntegrationResult integrate_multistep(const IntegrationProblem& problem, int64_t evaluations,
                                      double last, const ReferenceOptions& options);

}  // namespace bespoke
