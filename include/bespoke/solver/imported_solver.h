#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bespoke/path/schedule.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

// Solvers of others, as they publish them, become NS solvers: docs/reference/solver-file.md.

// What a description calls itself where it does; `export` to sigmas writes such a one.
constexpr char kStepsFormat[] = "bespoke-steps";
constexpr int kStepsVersion = 1;
// Of one that clips, so that readers which know nothing of clips refuse it.
constexpr int kClipVersion = 2;

// What coefficients are multiplied onto: a prediction, or the slope d = dy / dsigma of the space of
// sigmas, (y - D) / sigma.
enum class Term { velocity, noise, data, v, edm, score, slope };
const std::vector<std::string>& term_names();

// The states that coefficients are multiplied onto: x, or y = x / alpha (x on a flow path), which
// tools that count in sigmas have.
enum class StateSpace { path, sigma };

// x_{i+1} = sum_{j <= i} c_ij x_j + d_ij f_j, on any term f and in either space. The noise is
// scaled to t_0, as the catalogue's solvers do.
NsSolver from_steps(const std::vector<double>& times, const std::vector<UpdateRule>& rules,
                    Term term, StateSpace space, const Schedule& schedule);

// Per step, one prediction made of those so far: f = sum_j w_j f_j, row i over the last so many of
// 0 ... i, the newest last. The step is exact for that prediction held fixed: DDIM's for noise and
// data, Euler's for velocities, Euler's in sigma for slopes. Other terms are bad input.
NsSolver from_weights(const std::vector<double>& times,
                      const std::vector<std::vector<double>>& weights, Term term,
                      const Schedule& schedule);

// The same solver where the network is told other times than the steps are made for, as many as
// there are evaluations: what it answers there is held as this term (LD3, GAS). It is given the
// same state of this space there, x (GAS) or y (tools that count in sigmas).
NsSolver with_network_times(const NsSolver& solver, const std::vector<double>& network_times,
                            Term held, StateSpace space, const Schedule& schedule);

// A method of the catalogue, by its name, on these times.
NsSolver on_times(const std::string& method, const std::vector<double>& times,
                  const SchedulePtr& schedule, bool lower_order_final = false);

// A description of such solvers, as a file has it, as a solver file; `source` names it in messages.
SolverFile import_solvers(const nlohmann::json& description, const std::string& source);
SolverFile read_imported(const std::filesystem::path& path);

}  // namespace bespoke
