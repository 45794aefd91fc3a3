#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "bespoke/path/guidance_weight.h"
#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// What the solver was made for. It runs on the velocity of any model on this path; the
// prediction and guidance say which field it was tuned to.
struct FieldDescription {
  Prediction prediction = Prediction::velocity;
  SchedulePtr schedule;
  GuidanceWeight guidance;
};

// A *.solver.json: the solver, what it is for and where it came from. Preconditioning is folded
// into the coefficients, so whoever runs it needs nothing but u.
struct SolverFile {
  std::string name;
  NsSolver solver;
  FieldDescription field;
  nlohmann::json provenance = nlohmann::json::object();  // free-form, for people and reports
};

std::string to_json_text(const SolverFile& file);

// Reads and checks everything; `source` names the file in messages. Numbers round-trip exactly.
SolverFile parse_solver_file(const std::string& text, const std::string& source);

SolverFile read_solver_file(const std::filesystem::path& path);
void write_solver_file(const std::filesystem::path& path, const SolverFile& file);

}  // namespace bespoke
