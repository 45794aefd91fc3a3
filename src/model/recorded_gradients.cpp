#include "bespoke/model/recorded_gradients.h"

#include <torch/torch.h>

#include <stdexcept>
#include <utility>

#include "owned.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr size_t kDifferentiable = 2;  // x and t; what follows are conditions

// [batch, size of x + size of t]: one tensor, as recordings return it. `given` are the arguments
// and the cotangent of the result.
torch::Tensor pulled_back(const TensorCall& call, const std::vector<torch::Tensor>& given) {
  const torch::AutoGradMode with_grad(true);
  std::vector<torch::Tensor> arguments(given.begin(), given.end() - 1), inputs;
  for (size_t i = 0; i < kDifferentiable; ++i) {
    arguments[i] = arguments[i].detach();
    if (arguments[i].is_floating_point()) inputs.push_back(arguments[i].requires_grad_());
  }
  const torch::Tensor output = call(copies_of(arguments));
  std::vector<torch::Tensor> gradients(inputs.size());
  if (output.requires_grad()) {
    gradients = torch::autograd::grad({output}, inputs, {given.back()}, /*retain_graph=*/false,
                                      /*create_graph=*/false, /*allow_unused=*/true);
  }
  std::vector<torch::Tensor> rows;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const torch::Tensor gradient =
        gradients[i].defined() ? gradients[i] : torch::zeros_like(inputs[i]);
    rows.push_back(gradient.detach().reshape({gradient.size(0), -1}));
  }
  return torch::cat(rows, 1);
}

class RecordedGradient : public torch::autograd::Node {
 public:
  RecordedGradient(std::vector<torch::Tensor> arguments, TensorCall call, CallGraphs& gradients)
      : torch::autograd::Node(torch::autograd::collect_next_edges(arguments[0], arguments[1])),
        call_(std::move(call)),
        gradients_(gradients) {
    for (const auto& argument : arguments) {
      arguments_.push_back(argument.detach());
      versions_.push_back(argument._version());
    }
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& cotangents) override {
    check_use();
    if (!cotangents[0].defined()) return torch::autograd::variable_list(kDifferentiable);
    std::vector<torch::Tensor> given = arguments_;
    given.push_back(cotangents[0].contiguous());
    const torch::Tensor rows =
        gradients_.call(given, [call = call_](const std::vector<torch::Tensor>& copies) {
          return pulled_back(call, copies);
        });
    torch::autograd::variable_list result(kDifferentiable);
    int64_t begin = 0;
    for (size_t i = 0; i < kDifferentiable; ++i) {
      if (!arguments_[i].is_floating_point()) continue;
      const int64_t size = arguments_[i].numel() / arguments_[i].size(0);
      result[i] = rows.narrow(1, begin, size).reshape_as(arguments_[i]);
      begin += size;
    }
    return result;
  }

  void release_variables() override { arguments_.clear(); }

 private:
  // What LibTorch's own nodes refuse as well.
  void check_use() const {
    if (arguments_.empty()) {
      throw std::runtime_error("the gradient of a network call was asked for a second time");
    }
    if (torch::GradMode::is_enabled()) {
      throw std::runtime_error(
          "gradients by CUDA graphs have no gradients of their own; load the network without "
          "graphs");
    }
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (static_cast<int64_t>(arguments_[i]._version()) == versions_[i]) continue;
      throw std::runtime_error(
          "an argument of a network call was written into before its gradient was taken");
    }
  }

  std::vector<torch::Tensor> arguments_;
  std::vector<int64_t> versions_;
  TensorCall call_;
  CallGraphs& gradients_;
};

}  // namespace

torch::Tensor call_with_recorded_gradients(const std::vector<torch::Tensor>& arguments,
                                           const TensorCall& call, CallGraphs& calls,
                                           CallGraphs& gradients) {
  torch::Tensor output;
  {
    const torch::NoGradGuard no_grad;
    output = calls.call(arguments, call);
  }
  torch::autograd::create_gradient_edge(
      output, std::make_shared<RecordedGradient>(arguments, call, gradients));
  return output;
}

}  // namespace bespoke
