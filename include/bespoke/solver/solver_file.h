#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/path/clip.h"
#include "bespoke/path/guidance_weight.h"
#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"
#include "bespoke/solver/ns_solver.h"
#include "bespoke/solver/provenance.h"

namespace bespoke {

// What the solvers were made for. They run on the velocity of any model on this path; the
// prediction and guidance say which field they were tuned to.
struct FieldDescription {
  Prediction prediction = Prediction::velocity;  // what the network returns
  SchedulePtr schedule;                          // the path of the model
  GuidanceWeight guidance;                       // the weight it is guided with
  // How the network counts time and scales its input, as its card says it; null where unknown. Only
  // programs that call the network themselves need it.
  nlohmann::json time = nullptr;
  // What is done to the data prediction at every evaluation. `prediction` is then what the network
  // itself returns, and the field is made from the clipped data.
  std::optional<Clip> clip = {};

  // The prediction that a solver on outputs is written for.
  Prediction stepped_with() const { return clip ? Prediction::data : prediction; }
};

// The maker that the provenance of a file names where the solver is the catalogue's.
constexpr char kMadeByCatalogue[] = "catalogue";

// One solver of a file, with what is to be said of it alone.
struct FiledSolver {
  NsSolver solver;                                       // its numbers
  nlohmann::json provenance = nlohmann::json::object();  // where it came from, as in Provenance
};

// A *.solver.json: solvers of one field, one for each number of evaluations, what they are for and
// where they came from. Preconditioning is folded into the coefficients, so whoever runs one needs
// nothing but u.
struct SolverFile {
  std::string name;                                      // as lists show it
  FieldDescription field;                                // what the solvers were made for
  std::vector<FiledSolver> solvers;                      // by rising NFE, each once
  nlohmann::json provenance = nlohmann::json::object();  // of all of them, as in Provenance

  // The numbers of evaluations there are solvers for, rising.
  std::vector<int> nfes() const;
  // Whether there is a solver of so many evaluations.
  bool has(int nfe) const;

  // The solver of `nfe` evaluations; 0 is the only one there is. A missing one is bad input, and
  // none asked for where there are several a usage error, that names those that are there.
  const NsSolver& at(int nfe = 0) const;
  // What is known of where that solver came from: what the file says of all, then of this one.
  Provenance provenance_of(int nfe = 0) const;
  // The file with that solver alone.
  SolverFile only(int nfe = 0) const;

  // Puts a solver in its place, instead of one with as many evaluations.
  void put(FiledSolver solver);

  // Throws a bad-input error where there is no solver, one makes no sense, or NFE do not rise.
  void validate() const;
};

// The text of a solver file, always of version 2.
std::string to_json_text(const SolverFile& file);

// Reads the text of a solver file, of version 1 or 2, and checks everything; `source` names the
// file in messages. Numbers round-trip exactly.
SolverFile parse_solver_file(const std::string& text, const std::string& source);

// Reads and checks a solver file.
SolverFile read_solver_file(const std::filesystem::path& path);
// Writes a solver file, whole or not at all.
void write_solver_file(const std::filesystem::path& path, const SolverFile& file);

}  // namespace bespoke
