#include "bespoke/sample/on_outputs.h"

#include <torch/torch.h>

#include <utility>

#include "bespoke/model/fields.h"
#include "bespoke/solver/lowering.h"

namespace bespoke {

namespace {

class OutputField : public Field {
 public:
  explicit OutputField(ModelPtr model) : model_(std::move(model)) {}

  torch::Tensor velocity(const torch::Tensor& x, const torch::Tensor& t,
                         const Conditions& conditions) const override {
    return model_->predict(x, t, conditions);
  }

  bool can_be_recorded() const override { return model_->can_be_recorded(); }

 private:
  ModelPtr model_;
};

}  // namespace

SolverOnField on_outputs(const NsSolver& solver, const ModelPtr& model) {
  if (model->prediction() == Prediction::velocity || solver.guides_itself()) {
    return {solver, std::make_shared<VelocityField>(model)};
  }
  LoweredSolver lowered =
      lower(solver, model->prediction(), *model->schedule(), safe_margin(*model));
  NsSolver written = solver;
  written.times = std::move(lowered.times);
  written.a = std::move(lowered.a);
  written.b = std::move(lowered.b);
  return {std::move(written), std::make_shared<OutputField>(model)};
}

}  // namespace bespoke
