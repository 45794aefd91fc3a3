#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bespoke/core/matrix.h"
#include "bespoke/core/psnr.h"
#include "bespoke/distill/adjoint.h"
#include "bespoke/distill/last_step.h"
#include "bespoke/model/model.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// Noise and the model's own samples from it, both [count, ...], with their conditions. The state a
// solver runs in is of the type of x0.
struct Pairs {
  torch::Tensor x0, x1;
  Conditions conditions;
  torch::Tensor decoded;  // decode(x1), where it is at hand; computed where it is not

  int64_t count() const { return x0.size(0); }
};

// From a sample to the space errors are measured in; differentiable. None is the identity.
using Decode = std::function<torch::Tensor(const torch::Tensor&)>;

struct ObjectiveOptions {
  Decode decode;
  Memory memory = Memory::low;  // high keeps the graphs of a whole batch
  double peak = kUnitPeak;      // peak-to-peak range of what is measured, for PSNR
  int64_t device_batch = 64;    // samples given to the model at once
};

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

// The mean over samples of log(|r|^2 / size), r = decode(x_n) - decode(x(1)): minimising it is
// maximising the mean PSNR. Errors below kLeastError count as that.
class Objective {
 public:
  Objective(std::shared_ptr<const Field> field, Pairs pairs, ObjectiveOptions options);

  int64_t count() const { return pairs_.count(); }

  // The numbers errors are averaged over in a sample.
  double sample_size() const {
    return static_cast<double>(pairs_.decoded.numel()) / static_cast<double>(count());
  }

  // log(|r|^2 / size) of each sample of `subset`, from n forwards a sample.
  std::vector<double> log_errors(const NsSolver& solver, const std::vector<int64_t>& subset,
                                 Counts* counts) const;

  // What the last step can still do on `subset`, from n forwards a sample. Needs is_linear().
  LastStep last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                     Counts* counts) const;

  // Whether r is linear in x_n: without a decoder.
  bool is_linear() const { return !options_.decode; }

  // The loss, smoothed to the mean of log((|r|^2 + floor) / size), its exact gradient on `subset`,
  // and the Gauss-Newton matrix, the mean of 2 J^T J / (|r|^2 + floor), estimated by probes:
  // E[(J^T z)(J^T z)^T] = J^T J. Where the last step is refitted, which costs no evaluation, all is
  // at the refitted solver.
  LocalModel local_model(const NsSolver& solver, const std::vector<int64_t>& subset,
                         const LocalModelOptions& options, Counts* counts) const;

 private:
  struct Chunk;
  struct Run;
  template <class Work>
  void for_each_chunk(const std::vector<int64_t>& subset, Work work) const;
  torch::Tensor decode(const torch::Tensor& x) const;
  torch::Tensor residual(const torch::Tensor& x, const Chunk& chunk) const;
  static double geometric_mean_square(const std::vector<Run>& runs);
  std::vector<double> refit(std::vector<Run>& runs, double floor) const;

  std::shared_ptr<const Field> field_;
  Pairs pairs_;
  ObjectiveOptions options_;
};

// The samples of an iteration: `batch` of `count`, without repetition, from (seed, iteration).
std::vector<int64_t> draw_batch(uint64_t seed, int64_t iteration, int64_t count, int64_t batch);

// The stream of an iteration's probes, apart from that of its batch.
uint32_t probe_stream(int64_t iteration);

double mean(const std::vector<double>& values);

// Mean PSNR from the mean log error.
double psnr_of_loss(double loss, double peak = kUnitPeak);

}  // namespace bespoke
