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
  Prediction prediction = Prediction::velocity;
  SchedulePtr schedule;
  GuidanceWeight guidance;
  // How the network counts time and scales its input, as its card says it; null where unknown. Only
  // programs that call the network themselves need it.
  nlohmann::json time = nullptr;
  // What is done to the data prediction at every evaluation. What the network itself returns is
  // then `prediction`, and what the field is made of the clipped data.
  std::optional<Clip> clip = {};

  // What a solver on outputs is lowered to.
  Prediction stepped_with() const { return clip ? Prediction::data : prediction; }
};

// What the provenance of a file calls its maker where that is the catalogue.
constexpr char kMadeByCatalogue[] = "catalogue";

// One solver of a file, with what is to be said of it alone.
struct FiledSolver {
  NsSolver solver;
  nlohmann::json provenance = nlohmann::json::object();
};

// A *.solver.json: solvers of one field, one for each number of evaluations, what they are for and
// where they came from. Preconditioning is folded into the coefficients, so whoever runs one needs
// nothing but u.
struct SolverFile {
  std::string name;
  FieldDescription field;
  std::vector<FiledSolver> solvers;                      // by rising NFE, each once
  nlohmann::json provenance = nlohmann::json::object();  // of all of them, as in Provenance

  std::vector<int> nfes() const;
  bool has(int nfe) const;

  // The solver of `nfe` evaluations; 0 is the only one there is. A missing one is bad input, and
  // none asked for where there are several a usage error, that names those that are there.
  const NsSolver& at(int nfe = 0) const;
  // What is known of where that solver came from: of the file, then of the solver.
  Provenance provenance_of(int nfe = 0) const;
  // The file with that solver alone.
  SolverFile only(int nfe = 0) const;

  // Puts a solver in its place, instead of one with as many evaluations.
  void put(FiledSolver solver);

  // Throws a bad-input error: no solver, one that makes no sense, or NFE that do not rise.
  void validate() const;
};

// Always of version 2.
std::string to_json_text(const SolverFile& file);

// Reads versions 1 and 2 and checks everything; `source` names the file in messages. Numbers
// round-trip exactly.
SolverFile parse_solver_file(const std::string& text, const std::string& source);

SolverFile read_solver_file(const std::filesystem::path& path);
void write_solver_file(const std::filesystem::path& path, const SolverFile& file);

}  // namespace bespoke
