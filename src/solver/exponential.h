#pragma once

#include <vector>

#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"
#include "bespoke/solver/ns_solver.h"
#include "bespoke/solver/runge_kutta.h"

namespace bespoke {

// Exponential integrators: the linear part of the path is solved exactly, only the data
// prediction D or the noise prediction E is approximated. With rho = sigma / alpha,
//   noise:  x'/alpha' = x/alpha + int E drho        data:  x'/sigma' = x/sigma + int D dsnr.
// Where lambda is infinite at an end of a step (FM-OT at t = 0, any path at t = 1) a method whose
// variable is infinite there takes the step by DDIM, in as many equal substeps as it has stages.

// The variable in which D or E is a polynomial through its last values.
enum class PolynomialIn { lambda, rho, t };

struct MultistepOptions {
  int order = 2;
  bool lower_order_final = false;  // let the order fall to one towards the last step
};

// Makes exponential Adams-Bashforth solvers; of order one it is DDIM, x' = alpha' D + sigma' E. In
// lambda it is DEIS's log-rho AB for noise; in rho and t (noise only) it is DEIS's rho-AB and tAB.
NsSolver exponential_multistep(const Schedule& schedule, const std::vector<double>& grid,
                               Prediction form, PolynomialIn variable,
                               const MultistepOptions& options);

// Makes Runge-Kutta solvers in rho on E, or in snr on D, with one tableau per step.
// `infinite_at_end` as for runge_kutta.
NsSolver exponential_runge_kutta(const Schedule& schedule, const std::vector<double>& grid,
                                 Prediction form, const std::vector<ButcherTableau>& tableaus,
                                 bool infinite_at_end = false);

// Makes iPNDM: DDIM steps on a noise extrapolated with the Adams-Bashforth weights of equal steps.
NsSolver ipndm(const Schedule& schedule, const std::vector<double>& grid, int order = 4);

}  // namespace bespoke
