#pragma once

#include <cstdint>
#include <vector>

#include "bespoke/base/matrix.h"
#include "bespoke/base/psnr.h"
#include "bespoke/distill/counts.h"
#include "bespoke/distill/linear_model.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// The loss and its local model in the solver's coefficients c (in the order of coefficients_of):
//   loss(c + d) = loss + <gradient, d> + <d, curvature d> / 2, about.
struct LocalModel {
  double loss = 0;
  std::vector<double> gradient;
  Matrix curvature;
  double floor = 0;               // what was added to |r|^2
  std::vector<double> last_step;  // the change of the last step, where it was refitted first
};

struct LocalModelOptions {
  int probes = 1;                // random sign vectors a sample; 0: no curvature
  bool refit_last_step = false;  // put the last step where it is best on the subset first
  double smoothing = 0;          // the floor, of the geometric mean of |r|^2 on the subset
  uint64_t seed = 0;             // probes are drawn from (seed, stream)
  uint32_t stream = 0;
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

  // The loss, smoothed to the mean of log((|r|^2 + floor) / size), its exact gradient on `subset`,
  // and the Gauss-Newton matrix, the mean of 2 J^T J / (|r|^2 + floor), estimated by probes:
  // E[(J^T z)(J^T z)^T] = J^T J. Where the last step is refitted, which costs no evaluation, all is
  // at the refitted solver.
  virtual LocalModel local_model(const NsSolver& solver, const std::vector<int64_t>& subset,
                                 const LocalModelOptions& options, Counts* counts) const = 0;
};

// 0 ... count - 1 of the objective's samples, all of them without a count.
std::vector<int64_t> first_samples(const Objective& objective);
std::vector<int64_t> first_samples(const Objective& objective, int64_t count);

// The samples of an iteration: `batch` of `count`, without repetition, from (seed, iteration).
std::vector<int64_t> draw_batch(uint64_t seed, int64_t iteration, int64_t count, int64_t batch);

// The stream of an iteration's probes, apart from that of its batch.
uint32_t probe_stream(int64_t iteration);

// Mean PSNR from the mean log error.
double psnr_of_loss(double loss, double peak = kUnitPeak);

}  // namespace bespoke
