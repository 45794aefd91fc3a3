#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bespoke/model/model.h"

namespace bespoke {

// A callable that a model is made from. It is given x [batch, ...], t [batch] float64 on the CPU in
// our convention (0 = noise, 1 = data), and the conditions, and returns a tensor of x's shape.
using ModelFunction =
    std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&, const Conditions&)>;

// Makes a model from any callable: f returns its prediction for samples of this shape on this path.
// `dtype` is the precision it computes in. Gradients go through f if it keeps them.
ModelPtr function_model(Prediction prediction, SchedulePtr schedule, std::vector<int64_t> shape,
                        ModelFunction f, torch::ScalarType dtype = torch::kFloat);

// Makes a velocity field from any callable.
std::shared_ptr<const Field> function_field(ModelFunction f);

}  // namespace bespoke
