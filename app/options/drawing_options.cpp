#include "options/drawing_options.h"

#include <fmt/format.h>

#include "options/number_checks.h"
#include "options/retired_options.h"

namespace bespoke {

namespace {

constexpr char kReference[] = "reference";

}  // namespace

void DrawingOptions::add_to(CLI::App& command) {
  command
      .add_option("--solver", name,
                  fmt::format("{}, or '{}' (adaptive RK45)", kSolverNames, kReference))
      ->capture_default_str();
  command
      .add_option("--nfe", nfe,
                  "model evaluations to spend; default 8, or the only solver of a file")
      ->check(positive_number());
  command.add_option("--tolerance", tolerance, "of the reference, relative and absolute")
      ->capture_default_str();
  add_retired_solver_options(command, "--solver dpm++2m");
}

bool DrawingOptions::exactly() const { return name == kReference; }

}  // namespace bespoke
