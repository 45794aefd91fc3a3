#pragma once

#include <functional>

#include "bespoke/base/jet.h"
#include "bespoke/model/model.h"
#include "bespoke/path/conversion.h"
#include "bespoke/path/prediction.h"
#include "bespoke/path/scale_time.h"

namespace bespoke {

// Applies f to each time, [batch] float64; differentiable, with f's own derivative. Where all times
// are one expanded value f is called once.
torch::Tensor time_function(const torch::Tensor& t, const std::function<Jet(double)>& f);

// Computes state * x + output * f with weights of its own for every sample, [batch] float64 on the
// CPU, in x's precision; differentiable.
torch::Tensor apply_affine(const torch::Tensor& state, const torch::Tensor& output,
                           const torch::Tensor& x, const torch::Tensor& f);

// The velocity of a model on its own path: u = alpha' D + sigma' E, from whatever it predicts.
// At an end where the prediction does not determine u (see safe_time) it is taken a hair inside.
class VelocityField : public Field {
 public:
  // The field of a model.
  explicit VelocityField(ModelPtr model);
  // The velocity, guided where the model is.
  torch::Tensor velocity(const torch::Tensor& x, const torch::Tensor& t,
                         const Conditions& conditions) const override;
  // The conditional velocity and, where it is asked for, its difference to the unconditional one.
  GuidanceParts velocity_parts(const torch::Tensor& x, const torch::Tensor& t,
                               const Conditions& conditions, bool with_difference) const override;
  // Whether calls of the model can be recorded as CUDA graphs.
  bool can_be_recorded() const override { return model_->can_be_recorded(); }

 private:
  torch::Tensor safe_times(const torch::Tensor& t) const;
  // u = state x + output f: one of the two, at safe times.
  torch::Tensor weight(const torch::Tensor& safe, Jet Affine<Jet>::*part) const;

  ModelPtr model_;
  double margin_;
};

// The velocity of a model moved to another schedule after training: bar u = bar alpha' D + bar
// sigma' E at (t_r, x / s_r). Finite wherever D and E are, even where the model's own velocity is
// not. Differentiable in x.
class RescheduledField : public Field {
 public:
  // The field of a model on another schedule.
  RescheduledField(ModelPtr model, SchedulePtr to);
  // The velocity on that schedule at its time r, guided where the model is.
  torch::Tensor velocity(const torch::Tensor& x, const torch::Tensor& r,
                         const Conditions& conditions) const override;
  // The conditional velocity and, where it is asked for, its difference to the unconditional one.
  GuidanceParts velocity_parts(const torch::Tensor& x, const torch::Tensor& r,
                               const Conditions& conditions, bool with_difference) const override;
  // Whether calls of the model can be recorded as CUDA graphs.
  bool can_be_recorded() const override { return model_->can_be_recorded(); }

 private:
  // The same number of each time's call of the model.
  torch::Tensor of_calls(const torch::Tensor& r,
                         const std::function<double(const ModelCall&)>& number) const;
  // The states the model is asked about.
  torch::Tensor own_states(const torch::Tensor& x, const torch::Tensor& r) const;

  ModelPtr model_;
  SchedulePtr to_;
  ScaleTimePtr transform_;
  double margin_;
};

}  // namespace bespoke
