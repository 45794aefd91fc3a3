#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace bespoke {

// The files that other tools write for the solvers they learn, as descriptions that import_solvers
// takes. Their times are 1 at the noise; docs/reference/solver-file.md says what is read from each.

// A tensor of such a file.
struct NumberTable {
  std::vector<int64_t> shape;  // as the file has it
  std::vector<double> values;  // the last index runs fastest
};
// Tables with their names, in the order of the file.
using NamedTables = std::vector<std::pair<std::string, NumberTable>>;

// Finds all lists of numbers in a text that have a name, in their order: "name = [...]", "name:
// [...]", also as PyTorch prints tensors. Lists may be nested.
NamedTables named_tables(const std::string& text);

// Whether the names are those of a learned solver that can be read.
bool is_learned_solver(const NamedTables& tables);

// What such a file does not say.
struct LearnedSolverFacts {
  nlohmann::json schedule;     // as a description has it
  nlohmann::json prediction;   // as a description has it
  std::string method;          // of the catalogue, where only times were learnt
  std::vector<double> sigmas;  // DyWeight's schedule
  double end = 1e-3;           // where GAS ends, t_eps
};

// The description of the solver that the tables hold, recognised by their names: NeuralSolver's
// timedeltas and coeffs (one solver or several), LD3's best_t_steps, GAS' ema/shadow_params,
// DyWeight's dyweight_weights_raw. Tables of no such solver are bad input, and so is a missing
// fact.
nlohmann::json describe_learned_solver(const NamedTables& tables, const LearnedSolverFacts& facts,
                                       const std::string& source);

}  // namespace bespoke
