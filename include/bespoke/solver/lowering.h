#pragma once

#include <vector>

#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// A solver runs on velocities. Every prediction is linear in the state and the network's output, so
// it can be rewritten once to run on what a program has at hand, which then needs neither the
// schedule nor any conversion at run time.
//
// Where the prediction does not determine the velocity, at the ends of some paths, the network is
// evaluated a hair inside, as by safe_velocity_time with this margin: safe_margin of the precision
// the network computes in.

// What other tools call sigma: the deviation of the noise where the data counts in full,
// sigma / alpha, or sigma itself on a flow path, where alpha + sigma = 1 and states keep their own
// scale. Infinite where alpha = 0 and the path is no flow.
bool is_flow(const Schedule& schedule);
double tool_sigma(const Schedule& schedule, double t);

// Writes a solver on the network's raw outputs f_j at times[j]:
//   x_{i+1} = a_i x_0 + sum_{j <= i} b_ij f_j.
struct LoweredSolver {
  Prediction prediction = Prediction::velocity;  // what f is
  std::vector<double> times;                     // n + 1: of the evaluations, and the end
  std::vector<double> sigmas;                    // tool_sigma of each
  std::vector<double> a;
  std::vector<std::vector<double>> b;
  double start_scale = 1;  // x_0 is this times the noise a sampler draws

  int nfe() const { return static_cast<int>(a.size()); }
};

LoweredSolver lower(const NsSolver& solver, Prediction prediction, const Schedule& schedule,
                    double margin);

// Writes a solver in the space of sigmas, for tools such as k-diffusion and ComfyUI, which hand a
// sampler a denoiser D(y, sigma) on states y = x / alpha (y = x on a flow path):
//   d_j = (y_j - D(y_j, sigmas[j])) / sigmas[j],   y_{i+1} = a_i y_0 + sum_{j <= i} b_ij d_j.
// d is the noise prediction, or the negative velocity on a flow path. It keeps coefficients small,
// which the basis of D does not. A solver of another path that begins at alpha = 0, where x / alpha
// is infinite, cannot be written so and is bad input.
struct SigmaSolver {
  std::vector<double> times, sigmas;  // n + 1 each, as above
  std::vector<double> a;
  std::vector<std::vector<double>> b;
  double start_scale = 1;  // y_0 is this times standard normal noise

  int nfe() const { return static_cast<int>(a.size()); }
};

SigmaSolver lower_to_sigmas(const NsSolver& solver, const Schedule& schedule, double margin);

}  // namespace bespoke
