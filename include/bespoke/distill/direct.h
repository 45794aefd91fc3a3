#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bespoke/distill/family.h"
#include "bespoke/run/counts.h"
#include "bespoke/run/samples.h"

namespace bespoke {

// Gauss-Newton on the mean log error with the whole Jacobian of x_n, by differences, on a few
// samples: no gradient of the model. Every coefficient and time is changed in turn; a change in
// step i costs the evaluations after it alone, and the columns of the last step are x_0 and u_j
// themselves. An iteration moves theta by
//   -(H + damping diag H)^-1 g
// with the damping for which the loss falls most on the judges, these samples and others, with the
// last step refitted: a few samples are soon fitted too well, and those that were not fitted tell.
//
// H and g are means over the samples of the iteration and of those before it, whose columns are
// remembered and whose residuals are taken anew: n evaluations per sample instead of a whole
// Jacobian. Where errors have since fallen by more than four decibels, those columns count less.
struct DirectOptions {
  // Samples per iteration; 0 takes 4, or more where they are small, 16 numbers per parameter, and
  // twice as many after an iteration that gained nothing, up to 32 or, beyond 14 evaluations, 8.
  int64_t batch = 0;
  int64_t remembered = 40;  // samples of earlier iterations at most
  int64_t judges = 0;       // others that judge with them, where there are any; 0 takes judges_for
  double smoothing = 0.05;  // the floor under |r|^2, of its geometric mean
  double damping = 1e-3;    // at the start
  int attempts = 0;         // dampings tried at most, a factor of ten apart; 0 takes attempts_for
  // How far a coefficient moves the state after its step, of the state's root mean square; 0 takes
  // what suits the precision of the model's answers (answer_noise). And how far a time is moved to
  // either side, of the smaller gap beside it; 0 takes 0.05, and more where answers are imprecise
  // (research/experiments.md).
  double difference = 0;
  double time_difference = 0;
};

// Whether a solver of so many evaluations costs so much that many rough iterations gain more than
// few careful ones. Then at most 8 samples make an iteration instead of 32, 8 others judge it
// instead of 16, and 3 dampings are tried instead of 5.
bool is_costly(int nfe);
int64_t judges_for(const DirectOptions& options, int nfe);
int attempts_for(const DirectOptions& options, int nfe);

// How far times are moved where narrow differences gain nothing: as far as it ever pays to look,
// past the ripples of a network.
double far_time_difference(int nfe);

// Reads "smoothing=0.1,attempts=3": any of the above by name but the batch, the rest at their
// defaults.
DirectOptions parse_direct_options(const std::string& text);

// The samples of an earlier iteration and theta there.
struct Remembered {
  std::vector<double> theta;
  std::vector<int64_t> samples;
  double loss = 0;             // on them, there
  double time_difference = 0;  // of its columns
  // Columns, which are not stored with a state but taken anew where a run goes on, on the CPU to
  // the same bits.
  std::shared_ptr<const Columns> columns;
};

// What one iteration hands to the next.
struct DirectState {
  double damping = 0;       // 0: not started
  double difference = 0;    // of coefficients, once it is known
  int64_t batch = 0;        // samples of the last iteration
  int64_t next_sample = 0;  // the first of those that no iteration has looked at
  std::vector<Remembered> memory;
};

// The changes that make up the Jacobian of a solver of the family at theta: all of its coefficients
// that theta moves and that are not of the last step; times to both sides, where there is room.
std::vector<Change> jacobian_changes(const NsSolver& solver, const Matrix& family_jacobian,
                                     const DirectOptions& options);

// What a run and all changes cost per sample, with every time changed to both sides.
int64_t calls_of_jacobian(const SolverShape& shape);

// How far answers of the model are from repeating themselves: the root mean square, of that of
// samples, by which x_n misses being linear over a change of x_0 so small that a smooth model is
// linear there. About 1e-6 in float32 and a thousand times that in bfloat16; it also sees a model
// that answers the same call differently. Costs 2 n evaluations per sample beyond the runs given.
double answer_noise(const Samples& samples, const Runs& runs, const NsSolver& solver,
                    Counts* counts);

// Does one iteration on theta, on these samples, judged by those. Returns the loss on the samples
// before it. Bad input where answers repeat too badly to take differences of.
double direct_iteration(const Samples& samples, const Family& family, const DirectOptions& options,
                        const std::vector<int64_t>& batch, const std::vector<int64_t>& judges,
                        DirectState& state, std::vector<double>& theta, Counts* counts);

}  // namespace bespoke
