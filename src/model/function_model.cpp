#include "bespoke/model/function_model.h"

#include <torch/torch.h>

#include <utility>

#include "owned.h"

namespace bespoke {

using namespace detail;

namespace {

class FunctionModel : public Model {
 public:
  FunctionModel(Prediction prediction, SchedulePtr schedule, std::vector<int64_t> shape,
                ModelFunction f, torch::ScalarType dtype)
      : prediction_(prediction),
        schedule_(std::move(schedule)),
        shape_(std::move(shape)),
        f_(std::move(f)),
        dtype_(dtype) {}

  torch::Tensor predict(const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions) const override {
    // The callable's input is its own, to write into, and its output is ours to keep.
    return owned(f_(x.clone(), t, conditions));
  }
  Prediction prediction() const override { return prediction_; }
  SchedulePtr schedule() const override { return schedule_; }
  std::vector<int64_t> sample_shape() const override { return shape_; }
  torch::ScalarType dtype() const override { return dtype_; }

 private:
  Prediction prediction_;
  SchedulePtr schedule_;
  std::vector<int64_t> shape_;
  ModelFunction f_;
  torch::ScalarType dtype_;
};

class FunctionField : public Field {
 public:
  explicit FunctionField(ModelFunction f) : f_(std::move(f)) {}
  torch::Tensor velocity(const torch::Tensor& x, const torch::Tensor& t,
                         const Conditions& conditions) const override {
    // The callable's input is its own, to write into, and its output is ours to keep.
    return owned(f_(x.clone(), t, conditions));
  }

 private:
  ModelFunction f_;
};

}  // namespace

ModelPtr function_model(Prediction prediction, SchedulePtr schedule, std::vector<int64_t> shape,
                        ModelFunction f, torch::ScalarType dtype) {
  return std::make_shared<FunctionModel>(prediction, std::move(schedule), std::move(shape),
                                         std::move(f), dtype);
}

std::shared_ptr<const Field> function_field(ModelFunction f) {
  return std::make_shared<FunctionField>(std::move(f));
}

}  // namespace bespoke
