#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace bespoke {

// Where a solver came from, as solver files have it: what every program that makes solvers writes
// and reports read. Whatever else a program writes is in `more`, under keys of its own.
struct Provenance {
  std::string made_by;                    // the program and its version
  std::string command;                    // that made it
  std::string method;                     // fit, direct, auto or adam
  std::string start;                      // the solver that the method began from
  std::string ended;                      // why the method ended
  std::optional<double> initial_psnr;     // of the start, decibels, on the validation samples
  std::optional<double> validation_psnr;  // of the solver
  std::optional<double> training_psnr;
  std::optional<int64_t> iterations;
  std::optional<int64_t> samples;             // learnt from
  std::optional<int64_t> held_out;            // validation samples
  std::optional<int64_t> forwards;            // evaluations to train
  std::optional<int64_t> screening_forwards;  // and to choose starts
  std::optional<int64_t> calls;               // of the model, all in
  std::optional<double> tolerance;            // of the reference
  std::optional<double> seconds;
  nlohmann::json more = nlohmann::json::object();

  // Whether the solver was found for a model, and measured.
  bool is_distilled() const { return validation_psnr.has_value(); }
};

// Reads what any version wrote; a value that does not fit its key's type stays in `more`.
Provenance provenance_from(const nlohmann::json& json);
nlohmann::json to_json(const Provenance& provenance);

}  // namespace bespoke
