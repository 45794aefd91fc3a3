#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

#include <mutex>
#include <stdexcept>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/model/compiled_package.h"

namespace bespoke::detail {

namespace {

// How often the device has had no memory to give: a package reports every failure alike, and
// prints the reason.
int64_t times_out_of_memory(torch::Device device) {
  return device.is_cuda() ? at::accelerator::getDeviceStats(device.index()).num_ooms : 0;
}

class PackageProgram : public NetworkProgram {
 public:
  PackageProgram(const std::string& path, PackageFacts facts, torch::Device device)
      : facts_(std::move(facts)),
        loader_(path, "model", /*run_single_threaded=*/true, /*num_runners=*/1,
                device.is_cuda() ? device.index() : c10::DeviceIndex{-1}) {}

  // On the current stream. The loader's own threads cannot be recorded as CUDA graphs: it waits for
  // an event after each call. So it has none, and callers take turns.
  torch::IValue run(const std::vector<torch::Tensor>& arguments) override {
    check_arguments(facts_, arguments);
    const std::lock_guard<std::mutex> lock(mutex_);
    const torch::Device device = arguments.front().device();
    const c10::DeviceGuard on_device(device);
    const int64_t before = times_out_of_memory(device);
    try {
      std::vector<torch::Tensor> results = loader_.run(arguments);
      if (results.size() == 1) return std::move(results.front());
      return results;
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) throw;
      if (times_out_of_memory(device) > before) throw std::runtime_error("out of memory");
      throw std::runtime_error("LibTorch has printed why");
    }
  }

  NetworkArguments arguments() const override {
    NetworkArguments taken{{}, facts_.arguments.size()};
    for (const PackageArgument& argument : facts_.arguments) taken.names.push_back(argument.name);
    return taken;
  }
  int64_t parameter_count() const override { return facts_.parameters; }
  bool has_gradients() const override { return false; }
  int64_t most_at_once() const override { return facts_.most_batch; }

 private:
  PackageFacts facts_;
  std::mutex mutex_;
  torch::inductor::AOTIModelPackageLoader loader_;
};

}  // namespace

PackageOpener package_opener() {
  return [](const std::string& path, const PackageFacts& facts, torch::Device device) {
    return std::make_unique<PackageProgram>(path, facts, device);
  };
}

}  // namespace bespoke::detail
