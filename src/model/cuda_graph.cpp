#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "bespoke/model/call_graphs.h"
#include "owned.h"

namespace bespoke {

using namespace detail;

namespace {

using GraphPool = decltype(at::cuda::graph_pool_handle());

class CudaGraphCall : public RecordedCall {
 public:
  explicit CudaGraphCall(const std::vector<torch::Tensor>& arguments)
      : inputs_(copies_of(arguments)), graph_(std::make_unique<at::cuda::CUDAGraph>()) {}

  // On the current stream, which must not be the default one.
  void capture(const TensorCall& call, const GraphPool& pool) {
    graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      output_ = call(inputs_);
      graph_->capture_end();
    } catch (...) {
      abandon(pool);
      throw;
    }
  }

  torch::Tensor replay(const std::vector<torch::Tensor>& arguments) override {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].copy_(arguments[i], true);
    graph_->replay();
    // The next replay writes there again.
    return output_.clone(at::MemoryFormat::Contiguous);
  }

 private:
  // Where the stream refuses to end a capture, LibTorch leaves its allocator believing that it goes
  // on, with the graph to ask about it: the graph is never destroyed then.
  void abandon(const GraphPool& pool) {
    try {
      graph_->capture_end();
    } catch (const std::exception&) {
      try {
        c10::cuda::CUDACachingAllocator::endAllocateToPool(inputs_.front().device().index(), pool);
      } catch (const std::exception&) {
      }
    }
    static_cast<void>(graph_.release());
  }

  std::vector<torch::Tensor> inputs_;
  torch::Tensor output_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

// A network that keeps count of its calls outside of the device, or draws random numbers, may be
// recorded without an error and still not be what is replayed.
void check_replay(const torch::Tensor& replayed, const torch::Tensor& called) {
  constexpr double kMostDifference = 0.05;  // far above rounding, even of half precision
  const auto difference = (replayed - called).to(torch::kDouble).norm();
  if ((difference <= kMostDifference * called.to(torch::kDouble).norm()).item<bool>()) return;
  throw std::runtime_error("its recorded call answers otherwise than the call itself");
}

std::unique_ptr<RecordedCall> record_cuda_graph(const std::vector<torch::Tensor>& arguments,
                                                const TensorCall& call, const GraphPool& pool) {
  constexpr int kWarmUps = 2;  // libraries prepare themselves for a stream when they first meet it
  const torch::NoGradGuard no_grad;
  const auto device = arguments.front().device().index();
  auto recorded = std::make_unique<CudaGraphCall>(arguments);
  torch::cuda::synchronize(device);
  {
    const c10::cuda::CUDAStreamGuard aside(c10::cuda::getStreamFromPool(false, device));
    for (int i = 0; i < kWarmUps; ++i) call(copies_of(arguments));
    torch::cuda::synchronize(device);
    recorded->capture(call, pool);
    torch::cuda::synchronize(device);
  }
  check_replay(recorded->replay(arguments), call(copies_of(arguments)));
  return recorded;
}

}  // namespace

CallRecorder cuda_graph_recorder() {
  if (!torch::cuda::is_available()) return nullptr;
  // One pool: its graphs never run at once, and what they return is copied before the next runs.
  return [pool = at::cuda::graph_pool_handle()](const std::vector<torch::Tensor>& arguments,
                                                const TensorCall& call) {
    return record_cuda_graph(arguments, call, pool);
  };
}

}  // namespace bespoke
