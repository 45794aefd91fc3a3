#include "teachers/script_student.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/version.h>

#include <sstream>
#include <unordered_set>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/model/network_program.h"

namespace bespoke {

using namespace detail;

namespace {

void switch_autocast(torch::Device device, bool on, torch::ScalarType dtype) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  at::autocast::set_autocast_dtype(device.type(), dtype);
  at::autocast::set_autocast_enabled(device.type(), on);
#else
  if (device.is_cuda()) {
    at::autocast::set_autocast_gpu_dtype(dtype);
    at::autocast::set_enabled(on);
  } else {
    at::autocast::set_autocast_cpu_dtype(dtype);
    at::autocast::set_cpu_enabled(on);
  }
#endif
}

// While it lives, products are computed in another precision. The weights that are converted for
// them are not kept, for the next step changes them.
class Autocast {
 public:
  Autocast(torch::Device device, torch::ScalarType dtype)
      : device_(device), dtype_(dtype), on_(dtype != torch::kFloat) {
    if (on_) switch_autocast(device_, true, dtype_);
  }
  ~Autocast() {
    if (!on_) return;
    at::autocast::clear_cache();
    switch_autocast(device_, false, dtype_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  torch::Device device_;
  torch::ScalarType dtype_;
  bool on_;
};

class StudentProgram : public NetworkProgram {
 public:
  StudentProgram(torch::jit::Module module, torch::Device device, torch::ScalarType dtype)
      : module_(std::move(module)), device_(device), dtype_(dtype) {}

  torch::IValue run(const std::vector<torch::Tensor>& arguments) override {
    // What LibTorch makes of a module once it has seen a few calls rounds otherwise than the module
    // as it is; a resumed training would then see other bits.
    const torch::jit::GraphOptimizerEnabledGuard as_it_is(false);
    const Autocast autocast(device_, dtype_);
    return module_.forward({arguments.begin(), arguments.end()});
  }

  NetworkArguments arguments() const override { return arguments_of(module_); }
  int64_t parameter_count() const override { return bespoke::parameter_count(module_); }

  bool has_gradients() const override { return true; }

 private:
  torch::jit::Module module_;
  torch::Device device_;
  torch::ScalarType dtype_;
};

// Each once, though a module may have it in several places.
std::vector<torch::Tensor> weights_of(const torch::jit::Module& module) {
  std::vector<torch::Tensor> weights;
  std::unordered_set<const void*> seen;
  for (const auto& parameter : module.parameters()) {
    const bool is_new = seen.insert(parameter.unsafeGetTensorImpl()).second;
    if (is_new && parameter.is_floating_point()) weights.push_back(parameter);
  }
  return weights;
}

}  // namespace

ScriptStudent::ScriptStudent(const ModelCard& card, torch::Device device)
    : device_(device), path_(card.weights) {
  if (card.format != kScriptFormat) {
    throw bad_input("{} is compiled and has no weights to train; distil the model as TorchScript",
                    path_.string());
  }
  as_loaded_ = torch::jit::load(path_.string(), torch::Device(torch::kCPU));
  module_ = torch::jit::load(path_.string(), torch::Device(torch::kCPU));
  module_.eval();
  module_.to(device, torch::kFloat);
  const auto weights = weights_of(module_);
  if (weights.empty()) {
    throw bad_input(
        "{} is frozen: its weights are constants that cannot be trained; export it without "
        "torch.jit.freeze",
        path_.string());
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    register_parameter(fmt::format("weight{}", i), weights[i]);
  }
}

ModelPtr ScriptStudent::model(const ModelCard& card, torch::ScalarType dtype) const {
  NetworkOptions options;
  options.device = device_;
  options.graphs = false;
  return network_model(make_network(std::make_unique<StudentProgram>(module_, device_, dtype),
                                    path_.string(), options),
                       card);
}

std::string ScriptStudent::file_with(const torch::Tensor& weights) const {
  const torch::NoGradGuard no_grad;
  const torch::jit::Module copy = as_loaded_.deepcopy();
  const torch::Tensor values = weights.to(torch::kCPU);
  int64_t at = 0;
  for (auto& weight : weights_of(copy)) {
    weight.copy_(values.narrow(0, at, weight.numel()).view(weight.sizes()));
    at += weight.numel();
  }
  std::ostringstream stream;
  copy.save(stream);
  return stream.str();
}

}  // namespace bespoke
