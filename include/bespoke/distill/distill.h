#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/base/psnr.h"
#include "bespoke/distill/adam.h"
#include "bespoke/distill/direct.h"
#include "bespoke/distill/family.h"
#include "bespoke/distill/fit_search.h"
#include "bespoke/distill/guided_search.h"
#include "bespoke/distill/match.h"
#include "bespoke/distill/state.h"
#include "bespoke/run/samples.h"
#include "bespoke/solver/named_solver.h"
#include "bespoke/solver/provenance.h"

namespace bespoke {

// How far a distillation has come after an iteration.
struct DistillProgress {
  size_t start;            // which of the starts
  int64_t iteration;       // of this start, from 1
  double loss;             // the optimiser's own, on the batch before the iteration
  bool validated;          // whether the next was measured now
  double validation_psnr;  // the latest, decibels
  double best_psnr;        // of this start on the validation pairs
  Counts training;         // spent on iterations so far
  Counts validation;       // spent on measurements so far
  double seconds;          // since the distillation began
};

// What a callback wants after an iteration.
enum class Verdict { go_on, stop };

// How a distillation is done.
struct DistillOptions {
  int nfe = 8;       // evaluations of the solver
  FamilyPtr family;  // null: bns_family(nfe)

  // Not 0: a solver with built-in guidance (solver_shape.h) that makes so many network calls per
  // sample, of `nfe` steps or, where that is 0, of as many as does best. Its start is the fit and
  // its family bns with the constraints below. The field must be guided with one weight.
  int network_calls = 0;
  // What such a solver must be like.
  BnsConstraints constraints;

  // What the solver is for. Its schedule is needed where starts are automatic; distilling a model
  // fills it in.
  FieldDescription field;

  // Solvers to begin from. Where there are none: the best of search_fit where trajectories are
  // known, otherwise the nearest of start_candidates on automatic_grids; for Adam and scale-time
  // families plain_starts. Of several, the best after the first measurement on the validation pairs
  // goes on.
  std::vector<NamedSolver> starts;

  Method method = Method::automatic;  // how solvers are improved
  FitSearchOptions fit;               // of the search for times that automatic starts come from
  DirectOptions direct;               // of the method `direct`
  AdamOptions adam;                   // of the method `adam`
  // Statistics to match as well, once the method has ended, from its best solver on.
  MatchOptions match;
  // Whether there are any. Where nfe is open, two network calls count as an evaluation.
  bool matches_statistics() const;

  // The most iterations; 0: the method's own number, 24 for auto, which mostly ends by itself
  // before, 6 for direct, 15,000 for Adam.
  int64_t iterations = 0;
  // The most iterations, as a number that is not 0.
  int64_t most_iterations() const;
  // The most calls of the model, 0 for no limit: for the samples, for fits, for training and for
  // measurements, those at the end included. Nothing begins that might spend more.
  int64_t most_calls = 0;
  int64_t reference_forwards = 0;  // calls that the samples took
  // Iterations between measurements on the validation pairs; 0: the method's own number, 1, or 100
  // for Adam.
  int64_t validation_interval = 0;
  // Auto ends after this many measurements in a row without a gain of `least_gain`, and at least 24
  // samples.
  int patience = 4;
  double least_gain = 0.05;  // decibels

  uint64_t seed = 0;        // of the choice of samples
  double peak = kUnitPeak;  // the peak-to-peak range of what is measured, for PSNR

  // Told what is done before the first iteration, and the fraction of it.
  std::function<void(const std::string& what, double fraction)> on_progress;

  // Told of each start as soon as it is measured, before the first iteration, and of what shape the
  // solvers are.
  std::function<void(const StartState&, const Counts& screening, const SolverShape&)> on_start;

  // Called after each iteration with a state from which `distill` goes on as if it had not stopped.
  std::function<Verdict(const DistillProgress&, const DistillState&)> on_iteration;

  // Checks the options. Throws a usage error that says what is wrong.
  void validate() const;
};

// Why a distillation ended.
enum class Ending { converged, iterations, calls, stopped, diverged };
// The name of an ending, as provenance has it.
std::string to_string(Ending ending);

// What a distillation found.
struct DistillSummary {
  NsSolver solver;                 // the best on the validation pairs
  std::string start;               // the start it came from
  double initial_psnr = 0;         // of that start, on the validation pairs, decibels
  double validation_psnr = 0;      // of the solver
  double validation_error = 0;     // its standard error, over the samples
  double training_psnr = 0;        // of the solver, on all training pairs; NaN if it diverges there
  int64_t iterations = 0;          // of that start
  int64_t reference_forwards = 0;  // that the samples took, where that is known
  Counts screening;                // spent on measuring starts
  Counts training;                 // spent on iterations
  Counts validation;               // spent on measurements
  int64_t held_out = 0;  // validation samples; 0 where the training samples served as such
  std::optional<MatchState> match;     // where statistics were matched
  double seconds = 0;                  // of the whole distillation
  Ending ending = Ending::iterations;  // why it ended
  std::string message;                 // what diverged, or empty

  // How many calls of the model it took, all in.
  int64_t calls() const {
    return reference_forwards + screening.forwards + training.forwards + validation.forwards;
  }

  // A paragraph that says all of it.
  std::string brief_report() const;

  // What a solver file says of the distillation.
  Provenance provenance() const;
};

// Finds the solver of the family that best reproduces the reference samples: minimises the mean
// log error on the training samples and keeps the iterate that is best on the validation samples;
// where statistics are to be matched it goes on from there, for their sake. Where calls are few,
// the training samples may be given for both. On the CPU, with a field whose bits do not depend on
// threads, a run is the same to the last bit each time, and so is one that was interrupted after
// any iteration and continued from its state. Where the loss stops being finite the best solver so
// far is returned, as diverged. Adam needs gradients of the training loss.
//
// Samples may be in other coordinates than the model's own (canonical_samples). Options and the
// result are in the model's own all the same; the solvers of a state are in those of the samples.
DistillSummary distill(const Samples& training, const Samples& validation,
                       const DistillOptions& options, DistillState state = {},
                       const LossGradients* gradients = nullptr);

}  // namespace bespoke
