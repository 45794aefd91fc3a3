#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/matrix.h"
#include "bespoke/base/team.h"
#include "bespoke/path/coordinates.h"
#include "bespoke/run/array_field.h"
#include "bespoke/run/changed_runs.h"
#include "bespoke/run/linear_model.h"
#include "bespoke/run/solver_run.h"
#include "bespoke/run/trajectories.h"

namespace bespoke {

// How solvers are run and measured on samples.
struct EvaluationOptions {
  // Takes samples to the space errors are measured in; none: they are in it.
  std::function<Array(const Array&)> decode;
  // Which numbers of a sample count in errors: 1 where one does and 0 where not, a row for each
  // sample or one for all of them. None: all count. Not with `decode`.
  Array mask;
  int64_t batch = 64;  // samples given to the field at once
  // Whether what is asked about the same solver, or about several on the same samples, is run in
  // one batch where it fits: for devices on which a large batch costs less than several small ones.
  bool joins_runs = false;
  Team* team = &alone();  // that the samples are dealt to
  // The coordinates of the field, noise and trajectories, where they are not the model's own
  // (canonical_samples).
  CoordinatesPtr coordinates;
};

// Runs of one solver on some of the samples; of a team, this member's part of them.
struct Runs {
  std::vector<int64_t> samples;  // of all members
  std::vector<SolverRun> parts;  // this member's, in batches
};

// How x_n of a solver depends on its numbers, on some samples: a column per change, the change of
// x_n for a unit of the number changed, then those of the last step's coefficients.
struct Columns {
  std::vector<int64_t> samples;  // of all members
  std::vector<Array> parts;      // this member's, side by side, in batches
  LinearModel model;             // at the solver they were taken at, of all samples
};

// Computes what makes samples comparable as sets: a row of d numbers for each of some samples,
// which are in the space errors are measured in.
using SampleFeatures = std::function<Matrix(const Array& samples)>;

// Noise, with the reference samples x(1) from it, on a field: what the methods of distillation
// learn from and judge by. The loss of a solver is the mean over samples of log(|r|^2 / size),
// r = decode(x_n) - decode(x(1)): minimising it is maximising the mean PSNR. Errors below
// kLeastError count as that. With a mask r, its columns and the targets of fits are of the numbers
// that count, and the size of a sample is how many of its numbers do. A solver that stops being
// finite on any sample asked about is an Error (diverged).
//
// On a team, samples are dealt to its members here and nowhere else: sample k belongs to member
// k % size, every member asks the same, and all get the same answers, those of a single process.
// Counts are those of all members.
class Samples {
 public:
  // `numbers` are those of the rows in the field, 0 ... count - 1 where they are empty.
  // Trajectories are of the first so many rows. The team must outlive it.
  Samples(std::shared_ptr<const ArrayField> field, Array noise, const Array& x1,
          std::shared_ptr<const Trajectories> trajectories = nullptr,
          EvaluationOptions options = {}, std::vector<int64_t> numbers = {});

  // How many samples there are.
  int64_t count() const { return static_cast<int64_t>(numbers_.size()); }
  // How many numbers of a sample errors are averaged over.
  double sample_size() const { return size_; }
  // The root mean square of x(1), about 0.
  double data_deviation() const { return deviation_; }
  // Whether r is linear in x_n, as it is unless both are decoded first.
  bool is_linear() const { return !options_.decode; }
  // Whether some of the numbers of a sample do not count in errors.
  bool is_masked() const { return static_cast<bool>(weights_); }
  // Whether runs are joined into one batch where they fit.
  bool joins_runs() const { return options_.joins_runs; }
  // How many samples are given to the field at once.
  int64_t batch() const { return options_.batch; }
  // The team that the samples are dealt to.
  Team& team() const { return *options_.team; }
  // The coordinates that solvers are in where those are not the model's own, or null.
  const CoordinatesPtr& coordinates() const { return options_.coordinates; }
  // How many samples make a full batch for every member of the team.
  int64_t full_batch() const { return options_.batch * team().size(); }
  // For how many samples, the first ones, the trajectories are known.
  int64_t trajectories() const;

  // Runs a solver on some samples. Costs its network calls for each.
  Runs run(const NsSolver& solver, const std::vector<int64_t>& samples, Counts* counts,
           Keep keep = Keep::everything) const;
  // The same for several sets of samples: in one batch where runs are joined and it fits, with a
  // sample of several sets in it once, otherwise set by set. None where the solver is not finite on
  // a set.
  std::vector<std::optional<Runs>> run_sets(const NsSolver& solver,
                                            const std::vector<std::vector<int64_t>>& sets,
                                            Counts* counts) const;
  // The same, but keeps their ends alone: one set after the other in as few batches as can be.
  std::vector<std::optional<Runs>> run_ends(const NsSolver& solver,
                                            const std::vector<std::vector<int64_t>>& sets,
                                            Counts* counts) const;
  // Runs several solvers of one shape on the same samples, in one batch where runs are joined.
  std::vector<std::optional<Runs>> run_each(const std::vector<NsSolver>& solvers,
                                            const std::vector<int64_t>& samples,
                                            Counts* counts) const;
  // The runs with the last step of another solver, which takes no evaluation.
  Runs with_last_step(Runs runs, const NsSolver& solver) const;

  // log(|r|^2 / size) of each sample at the end of runs.
  std::vector<double> log_errors(const Runs& runs) const;
  // The same for a solver that is run for it.
  std::vector<double> log_errors(const NsSolver& solver, const std::vector<int64_t>& samples,
                                 Counts* counts) const;

  // The linear problem in the coefficients of the last step: what it can still do. Needs
  // is_linear().
  LinearModel last_step(const Runs& runs) const;

  // How x_n changes with each change alone, found by runs with that change, which cost the
  // evaluations behind it. Takes no gradients of the model.
  Columns columns(const Runs& runs, const std::vector<Change>& changes, Counts* counts) const;

  // The linear problem of other runs on the same samples with columns taken elsewhere: a solver
  // nearby has other residuals and, nearly, the same columns.
  LinearModel against(const Columns& columns, const Runs& runs) const;

  // Features of the reference samples: a row for each.
  Matrix features_of_targets(const SampleFeatures& features,
                             const std::vector<int64_t>& samples) const;
  // Features of the ends of runs: a row for each sample.
  Matrix features_of_ends(const SampleFeatures& features, const Runs& runs) const;
  // How the features of the ends change along directions, sums of columns with the weights of one
  // row of `directions` each: for each sample direction after direction. `ends` are the features of
  // the ends themselves.
  Matrix feature_changes(const SampleFeatures& features, const Matrix& ends, const Runs& runs,
                         const Columns& columns, const Matrix& directions) const;

 private:
  friend class StepwiseFit;
  using Work = std::function<void(Counts* counts, std::vector<LinearModel::Sample>& samples)>;

  std::vector<int64_t> own(const std::vector<int64_t>& samples) const;
  std::vector<int64_t> numbers_of(const std::vector<int64_t>& rows) const;
  void weigh(const Array& mask);
  Array counting(const Array& x, const std::vector<int64_t>& rows) const;
  Array measured(const Array& x) const;
  Array residual(const Array& x, const std::vector<int64_t>& rows) const;
  std::vector<Array> decoded_columns(const Array& columns, const Array& x,
                                     const std::vector<int64_t>& rows, const Array& r) const;
  SolverRun run_part(const NsSolver& solver, const std::vector<int64_t>& rows, Counts* counts,
                     Keep keep) const;
  Runs rows_of(const Runs& runs, const std::vector<int64_t>& samples) const;
  bool fits(size_t solvers, const std::vector<int64_t>& samples) const;
  std::optional<Runs> run_or_none(const NsSolver& solver, const std::vector<int64_t>& samples,
                                  Counts* counts, Keep keep = Keep::everything) const;
  void agree(Counts* counts, const std::function<void(Counts*)>& work) const;
  LinearModel linear_model(const std::vector<int64_t>& samples, Counts* counts,
                           const Work& work) const;
  std::pair<Array, std::vector<double>> moved_along(const Array& y, const Array& columns,
                                                    const Matrix& directions, size_t k) const;
  Matrix gathered(const std::vector<int64_t>& samples, const std::function<Matrix()>& work) const;

  std::shared_ptr<const ArrayField> field_;
  const Arrays& arrays_;
  Array noise_, targets_;
  std::shared_ptr<const Trajectories> trajectories_;
  EvaluationOptions options_;
  std::vector<int64_t> numbers_;
  // What residuals and columns are multiplied by: the mask, in units that give every sample the
  // same size. None where all numbers count.
  Array weights_;
  double size_ = 0, deviation_ = 0;
  double numbers_in_sample_ = 0;  // those that do not count included
};

// Fits a solver of one shape step by step, on samples whose trajectories are known.
class StepwiseFit {
 public:
  // A fit on some of the samples; both must outlive it.
  StepwiseFit(const Samples& samples, SolverShape shape, const std::vector<int64_t>& subset,
              Counts* counts);

  // The linear problem of the noise, as the one column, against the true state at a time: residual
  // -x(t).
  LinearModel noise_against(double time) const;

  // Begins at x_0 = scale * noise.
  void start(double scale);

  // Evaluates u_i, and d_i where step i is guided, at the state reached. Returns the linear problem
  // with x_0, u_0 ... u_i and the d_j so far as columns against the true state at `next_time`:
  // residual -x(next_time).
  LinearModel evaluate(double time, double next_time);

  // Goes on to x_{i+1} with these coefficients of the columns.
  void advance(const std::vector<double>& coefficients);

 private:
  LinearModel against(const std::vector<Array>& columns, double time,
                      const std::function<void(Counts*)>& before) const;

  const Samples& samples_;
  SolverShape shape_;
  std::vector<int64_t> subset_, rows_;
  Counts* counts_;
  Array noise_, start_, state_;
  std::vector<Array> velocities_, differences_;
};

// The numbers of all samples, from 0.
std::vector<int64_t> first_samples(const Samples& samples);
// The numbers of the first so many samples, from 0.
std::vector<int64_t> first_samples(const Samples& samples, int64_t count);

}  // namespace bespoke
