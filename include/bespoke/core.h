#pragma once

// What a user of bespoke::core includes: it needs no tensors. Headers that are not listed here are
// parts of these, and change more often.

// Errors, as exceptions with a kind; randomness by (seed, index); decibels; processes together.
#include "bespoke/base/error.h"
#include "bespoke/base/psnr.h"
#include "bespoke/base/random.h"
#include "bespoke/base/team.h"

// The paths of models from noise to data, what they predict, and guidance.
#include "bespoke/path/guidance_weight.h"
#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"

// Solvers as numbers; those of the catalogue by name; your own, written as a paper writes them.
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/grid.h"
#include "bespoke/solver/named_solver.h"
#include "bespoke/solver/ns_solver.h"
#include "bespoke/solver/trace.h"

// Files of solvers, those of other tools, and texts for other programs.
#include "bespoke/solver/c_header.h"
#include "bespoke/solver/exported_text.h"
#include "bespoke/solver/imported_solver.h"
#include "bespoke/solver/solver_file.h"

// Fields on arrays of any kind, plain vectors among them; reference samples and their trajectories.
#include "bespoke/run/arrays.h"
#include "bespoke/run/plain_arrays.h"
#include "bespoke/run/reference.h"
#include "bespoke/run/samples.h"
#include "bespoke/run/solver_run.h"

// The best solver of so many evaluations, out of the catalogue or found for a model.
#include "bespoke/distill/best_of_catalogue.h"
#include "bespoke/distill/distill.h"
#include "bespoke/distill/family.h"

#include "bespoke/version.h"
