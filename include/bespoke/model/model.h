#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"

namespace bespoke {

// What a model is conditioned on, by name; every tensor has the batch as its first dimension.
using Conditions = std::map<std::string, torch::Tensor>;

// The conditions of the samples named by `index` (int64), or of the range [begin, end).
Conditions select(const Conditions& conditions, const torch::Tensor& index);
Conditions slice(const Conditions& conditions, int64_t begin, int64_t end);

// Repeats the whole batch so many times, one after the other: row k * batch + i is row i.
torch::Tensor repeat(const torch::Tensor& batch, int64_t times);
Conditions repeat(const Conditions& conditions, int64_t times);

// What guidance is made of, for callers that weigh it: f(x | y), and where it was asked for how
// that differs from f(x | null).
struct GuidanceParts {
  torch::Tensor conditional, difference;
};

// A trained model: what it predicts at x [batch, ...] and t. Time is in our convention, 0 = noise,
// 1 = data, as a float64 tensor [batch] on the CPU wherever x is: schedules need its value, and
// reading it back from a device would stall it. Outputs are differentiable in x and t.
class Model {
 public:
  virtual ~Model() = default;

  virtual torch::Tensor predict(const torch::Tensor& x, const torch::Tensor& t,
                                const Conditions& conditions) const = 0;

  // The parts of a guided model's prediction, without its weight: both from one doubled batch, or
  // the first alone from a plain one. Bad input where the model is not guided.
  virtual GuidanceParts predict_parts(const torch::Tensor& x, const torch::Tensor& t,
                                      const Conditions& conditions, bool with_difference) const;

  virtual Prediction prediction() const = 0;
  virtual SchedulePtr schedule() const = 0;
  virtual std::vector<int64_t> sample_shape() const = 0;
  // Whether a call does the same on a device whenever it is made at the same time t, and asks
  // nothing of the CPU: whole samples can then be recorded there (RepeatedSampler).
  virtual bool can_be_recorded() const { return false; }
  // The precision the model computes in: it decides how near a singular end it can be trusted.
  virtual torch::ScalarType dtype() const = 0;
};

using ModelPtr = std::shared_ptr<const Model>;

// The safe_margin of a precision, and of the model's.
double safe_margin(torch::ScalarType dtype);
double safe_margin(const Model& model);

// The type states are kept in: float64 for float64 models, float32 for all others.
torch::ScalarType state_dtype(const Model& model);

// The noise that samples first ... first + count - 1 of a seed start from: standard normal, scaled
// as the model's path asks for, [count, shape...] float64.
torch::Tensor starting_noise(const Model& model, uint64_t seed, uint64_t first, int64_t count);

// A velocity field u(t, x), the right-hand side of the sampling ODE.
class Field {
 public:
  virtual ~Field() = default;
  virtual torch::Tensor velocity(const torch::Tensor& x, const torch::Tensor& t,
                                 const Conditions& conditions) const = 0;

  // The parts of the velocity, as Model::predict_parts gives those of the prediction.
  virtual GuidanceParts velocity_parts(const torch::Tensor& x, const torch::Tensor& t,
                                       const Conditions& conditions, bool with_difference) const;

  // Whether calls can be recorded, as Model::can_be_recorded says.
  virtual bool can_be_recorded() const { return false; }
};

}  // namespace bespoke
