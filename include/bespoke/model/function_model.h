#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bespoke/model/model.h"

namespace bespoke {

// What a callable is given: x [batch, ...], t [batch] float64 on the CPU in our convention (0 =
// noise, 1 = data), and the conditions. It returns a tensor of x's shape.
using ModelFunction =
    std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&, const Conditions&)>;

// Any callable as a model: f returns its prediction for samples of this shape on this path. `dtype`
// is the precision it computes in. Gradients go through f if it keeps them.
ModelPtr function_model(Prediction prediction, SchedulePtr schedule, std::vector<int64_t> shape,
                        ModelFunction f, torch::ScalarType dtype = torch::kFloat);

// Any callable as a velocity field.
std::shared_ptr<const Field> function_field(ModelFunction f);

}  // namespace bespoke
