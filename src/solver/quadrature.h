#pragma once

#include <functional>
#include <vector>

namespace bespoke {

// For each node j, the integral over y in [from, to] of weight(y) times the Lagrange basis
// polynomial of that node taken at z(y), to near machine precision. Every multistep method's
// weights are of this form.
std::vector<double> lagrange_integrals(const std::vector<double>& nodes, double from, double to,
                                       const std::function<double(double)>& z,
                                       const std::function<double(double)>& weight);

}  // namespace bespoke
