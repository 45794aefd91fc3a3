#pragma once

#include <string>

#include "bespoke/solver/solver_file.h"

namespace bespoke {

// The options of `bespoke export`.
struct ExportCommandOptions {
  std::string solver, to, nfe, output, name;
  std::string schedule, prediction;  // of a solver of the catalogue, or of a C header
  int digits = 6;
  std::string model;                                        // for TorchScript, as all below
  std::string guidance, guidance_scale, guidance_interval;  // none: as the solver was made for
  std::string dtype = "fp32";
};

// The solvers asked for: all of a file, those of --nfe, or one alone where only `one` will do.
SolverFile solvers_to_export(const ExportCommandOptions& options, const FieldDescription& field,
                             bool one);

// The model and the solver as one TorchScript file. Defined by the executable: it needs LibTorch.
std::string torchscript_bytes(const ExportCommandOptions& options);

}  // namespace bespoke
