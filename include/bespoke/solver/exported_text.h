#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bespoke/solver/solver_file.h"

namespace bespoke {

// The solvers of a file as people and other tools read them; docs/reference/export.md has examples.

// Tables of times and coefficients in Markdown, one for each solver, with formulas as GitHub and
// Jupyter show them. Numbers have so many significant digits, 1 to 17.
std::string markdown_text(const SolverFile& file, int digits = 6);
// The same tables in LaTeX, with booktabs.
std::string latex_text(const SolverFile& file, int digits = 6);

// A description in the space of sigmas (lower_to_sigmas, for float32), for k-diffusion, ComfyUI and
// stable-diffusion.cpp. import_solvers reads it back.
std::string sigmas_text(const SolverFile& file);

// The scheduler_config.json of a BespokeScheduler of diffusers with all solvers of the file. Paths
// and predictions that diffusers does not know are bad input.
std::string diffusers_config_text(const SolverFile& file);

}  // namespace bespoke
