#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bespoke/base/matrix.h"
#include "bespoke/base/psnr.h"
#include "bespoke/distill/counts.h"
#include "bespoke/distill/linear_model.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// The loss and its gradient in the solver's coefficients, in the order of coefficients_of.
struct LossGradient {
  double loss = 0;
  std::vector<double> gradient;
};

// One number of a solver changed a little, to see how x_n changes.
struct Change {
  enum class What { start_scale, time, coefficient };
  What what;
  int step;    // of the time or coefficient
  int column;  // of a coefficient: 0 is a_i, 1 + j is b_ij, behind them are those of c
  // Of a time: by how much. Of a coefficient: how far it moves the state after the step, of that
  // state's root mean square; of the start scale: of x_0's own.
  double size;

  // The first evaluation that the change is seen by.
  int first_evaluation() const { return what == What::coefficient ? step + 1 : step; }
};

// A solver of one shape in the making, step by step, on some samples whose true trajectories are
// known.
class StepwiseRun {
 public:
  virtual ~StepwiseRun() = default;

  // The noise, as the one column, against the true state at a time: residual -x(t).
  virtual LinearModel noise_against(double time) = 0;

  // Begins at x_0 = scale * noise.
  virtual void start(double scale) = 0;

  // Evaluates u_i, and d_i where step i is guided, at the state reached; x_0, u_0 ... u_i and the
  // d_j so far as columns against the true state at `next_time`: residual -x(next_time).
  virtual LinearModel evaluate(double time, double next_time) = 0;

  // Goes on to x_{i+1} with these coefficients of the columns.
  virtual void advance(const std::vector<double>& coefficients) = 0;
};

// How x_n of a solver depends on its numbers, on some samples. Belongs to the objective that made
// it.
class Linearisation {
 public:
  virtual ~Linearisation() = default;

  // At the solver it was made for: a column per change, the change of x_n for a unit of the number
  // changed, then those of the last step's coefficients (a_{n-1}, b_{n-1,0} ..., c_{n-1,0} ...).
  virtual const LinearModel& model() const = 0;

  // What another solver misses by, along the same columns, from n forwards a sample unless its run
  // is known: a solver nearby has other residuals and, nearly, the same columns.
  virtual LinearModel against(const NsSolver& solver, Counts* counts) const = 0;
};

// What the methods of distillation ask about a solver. They see numbers alone; whoever has the
// model answers, with whatever arrays it computes on. There are count() pairs of noise and the
// model's own sample x(1) from it, and the loss is the mean over samples of log(|r|^2 / size),
// r = x_n - x(1): minimising it is maximising the mean PSNR. Errors below kLeastError count as
// that. A solver that stops being finite on any sample asked about is an Error (diverged).
class Objective {
 public:
  virtual ~Objective() = default;

  virtual int64_t count() const = 0;

  // The numbers errors are averaged over in a sample.
  virtual double sample_size() const = 0;

  // The root mean square of the model's samples x(1), about 0.
  virtual double data_deviation() const = 0;

  // Whether r is linear in x_n; not where both are decoded first.
  virtual bool is_linear() const = 0;

  // log(|r|^2 / size) of each sample of `subset`, from n forwards a sample.
  virtual std::vector<double> log_errors(const NsSolver& solver, const std::vector<int64_t>& subset,
                                         Counts* counts) const = 0;

  // What the last step can still do on `subset`, from n forwards a sample. Needs is_linear().
  virtual LinearModel last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                                Counts* counts) const = 0;

  // The true trajectories of the first so many samples are known; and a run along some of them.
  virtual int64_t trajectories() const = 0;
  virtual std::unique_ptr<StepwiseRun> begin_run(const SolverShape& shape,
                                                 const std::vector<int64_t>& subset,
                                                 Counts* counts) const = 0;

  // x_n as it is and as each change alone makes it. Costs n forwards a sample, none where last_step
  // or this was last asked about the same solver but for its last step and the same samples, and
  // for each change those from its first_evaluation() on. No gradients of the model.
  virtual std::unique_ptr<Linearisation> linearise(const NsSolver& solver,
                                                   const std::vector<int64_t>& subset,
                                                   const std::vector<Change>& changes,
                                                   Counts* counts) const = 0;

  // What a solver misses by along the columns of several of its linearisations, as each of them
  // says, for who can ask the model about all of their samples at once; nothing where the solver is
  // not finite on the samples of one.
  virtual std::vector<std::optional<LinearModel>> against(
      const NsSolver& solver, const std::vector<const Linearisation*>& all, Counts* counts) const;

  // Says that these solvers, of one shape, will be asked about on these samples, for who can run
  // them all in one batch; the questions themselves then cost nothing but their changes. Changes no
  // answer. Unless it is overridden nothing is done.
  virtual void run_ahead(const std::vector<NsSolver>& solvers, const std::vector<int64_t>& subset,
                         Counts* counts) const;

  // The loss on `subset` and its exact gradient. Needs gradients of the model.
  virtual LossGradient loss_gradient(const NsSolver& solver, const std::vector<int64_t>& subset,
                                     Counts* counts) const = 0;
};

// 0 ... count - 1 of the objective's samples, all of them without a count.
std::vector<int64_t> first_samples(const Objective& objective);
std::vector<int64_t> first_samples(const Objective& objective, int64_t count);

// The samples of an iteration: `batch` of `count`, without repetition, from (seed, iteration).
std::vector<int64_t> draw_batch(uint64_t seed, int64_t iteration, int64_t count, int64_t batch);

// The same without chance: samples that no iteration before had, as long as there are any, one
// after the other.
std::vector<int64_t> fresh_batch(int64_t iteration, int64_t count, int64_t batch);

// Those and so many that follow them, none twice.
std::vector<int64_t> judges_of(int64_t iteration, int64_t count, int64_t batch, int64_t others);

// Mean PSNR from the mean log error.
double psnr_of_loss(double loss, double peak = kUnitPeak);

}  // namespace bespoke
