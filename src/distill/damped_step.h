#pragma once

#include <vector>

#include "bespoke/distill/family.h"

namespace bespoke::detail {

// (H + damping D)^-1 g with D the diagonal of H, less of it for the parameters of the last step, in
// which the samples are linear. Empty if that cannot be solved.
std::vector<double> damped_step(const Matrix& hessian, double damping, const Family& family,
                                const std::vector<double>& gradient);

}  // namespace bespoke::detail
