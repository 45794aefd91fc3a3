#pragma once

#include <string>
#include <vector>

namespace bespoke {

// Lists of noise levels that others found for their models and published. Each begins at the
// largest; its last entry stands for the end, and is reached at the data itself. Where a list of so
// many steps was not published, one is interpolated linearly in the logarithm, as the authors do.
// All return steps entries: the levels that steps begin at.

// Align Your Steps (Sabour, Fidler and Kreis, 2024): sigma / alpha for "sd15", "sdxl" and "svd".
std::vector<double> ays_levels(const std::string& model, int steps);

// GITS (Chen et al., "On the Trajectory Regularity of ODE-based Diffusion Sampling", 2024):
// sigma / alpha for Stable Diffusion with the coefficient 1.2.
std::vector<double> gits_levels(int steps);

// OptimalSteps (Pei et al., 2025): sigma of the flow path for "flux" and "wan".
std::vector<double> optimal_steps_levels(const std::string& model, int steps);

}  // namespace bespoke
