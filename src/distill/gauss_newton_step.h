#pragma once

#include <vector>

#include "bespoke/distill/direct.h"
#include "bespoke/distill/family.h"

namespace bespoke::detail {

// H averaged with those of the iterations before. H is proportional to 1 / |r|^2, so what is
// averaged is H e^loss, which does not change as errors fall.
Matrix averaged_curvature(const Matrix& curvature, double loss, double averaging,
                          DirectState& state);

// (H + damping D)^-1 g with D the diagonal of H, less of it for the parameters of the last step, in
// which the samples are linear. Empty if that cannot be solved.
std::vector<double> damped_step(const Matrix& hessian, double damping, const Family& family,
                                const std::vector<double>& gradient);

}  // namespace bespoke::detail
