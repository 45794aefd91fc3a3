#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bespoke/path/schedule.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

// Third-party solvers, as they are published, become NS solvers. docs/reference/solver-file.md
// describes it.

// The format that a description may name; `export` to sigmas writes it.
constexpr char kStepsFormat[] = "bespoke-steps";
// The version of a description without a clip.
constexpr int kStepsVersion = 1;
// The version of a description with a clip: readers that know nothing of clips refuse it.
constexpr int kClipVersion = 2;

// What coefficients are multiplied onto: a prediction, or the slope d = dy / dsigma of the space of
// sigmas, (y - D) / sigma.
enum class Term { velocity, noise, data, v, edm, score, slope };
// The names of all terms, in the order of the enumeration.
const std::vector<std::string>& term_names();

// The states that coefficients are multiplied onto: x, or y = x / alpha (x on a flow path), which
// tools that count in sigmas have.
enum class StateSpace { path, sigma };

// The solver of the steps x_{i+1} = sum_{j <= i} c_ij x_j + d_ij f_j, on any term f and in either
// space. The noise is scaled to t_0, as the catalogue's solvers do.
NsSolver from_steps(const std::vector<double>& times, const std::vector<UpdateRule>& rules,
                    Term term, StateSpace space, const Schedule& schedule);

// The solver that steps with one prediction made of those so far: f = sum_j w_j f_j, row i over the
// last so many of 0 ... i, the newest last. The step is exact for that prediction held fixed:
// DDIM's for noise and data, Euler's for velocities, Euler's in sigma for slopes. Other terms are
// bad input.
NsSolver from_weights(const std::vector<double>& times,
                      const std::vector<std::vector<double>>& weights, Term term,
                      const Schedule& schedule);

// The same solver where the network is given other times than the steps are made for, one for each
// evaluation: what it returns there is held as this term (LD3, GAS). It is given the same state of
// this space there, x (GAS) or y (tools that count in sigmas).
NsSolver with_network_times(const NsSolver& solver, const std::vector<double>& network_times,
                            Term held, StateSpace space, const Schedule& schedule);

// A solver of the catalogue, by its name, on these times.
NsSolver on_times(const std::string& method, const std::vector<double>& times,
                  const SchedulePtr& schedule, bool lower_order_final = false);

// Reads a description of such solvers into a solver file; `source` names it in messages.
SolverFile import_solvers(const nlohmann::json& description, const std::string& source);
// The same from a file.
SolverFile read_imported(const std::filesystem::path& path);

}  // namespace bespoke
