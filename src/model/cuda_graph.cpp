#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "bespoke/model/call_graphs.h"
#include "bespoke/tensor/recording.h"
#include "owned.h"

namespace bespoke {

using namespace detail;

namespace {

using GraphPool = decltype(at::cuda::graph_pool_handle());

// An input of a graph, and what it was copied from last. Conditions are the same tensor in every
// step of a sample, and a copy of them would be a kernel more.
class GraphInput {
 public:
  explicit GraphInput(const torch::Tensor& copy) : tensor_(copy) {}

  const torch::Tensor& tensor() const { return tensor_; }

  // After the call was recorded: a network that writes into what it is given needs it anew.
  void recorded() { is_written_ = tensor_._version() > 0; }

  void fill(const torch::Tensor& source) {
    if (!is_written_ && holds(source)) return;
    tensor_.copy_(source, true);
    // Kept so that its memory is not given to another tensor meanwhile. Integers alone are: states
    // differ in every call, and to keep them would take memory.
    if (source.is_floating_point()) return;
    source_ = source;
    version_ = source._version();
  }

 private:
  bool holds(const torch::Tensor& source) const {
    return source_.defined() && source_.data_ptr() == source.data_ptr() &&
           source_.strides() == source.strides() && version_ == source._version();
  }

  torch::Tensor tensor_, source_;
  int64_t version_ = 0;  // of the source when it was copied
  bool is_written_ = false;
};

class CudaGraphCall : public RecordedCall {
 public:
  explicit CudaGraphCall(const std::vector<torch::Tensor>& arguments)
      : graph_(std::make_unique<at::cuda::CUDAGraph>()) {
    for (const auto& copy : copies_of(arguments)) inputs_.emplace_back(copy);
  }

  // On the current stream, which must not be the default one.
  void capture(const TensorCall& call, const GraphPool& pool) {
    graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      std::vector<torch::Tensor> tensors;
      for (const auto& input : inputs_) tensors.push_back(input.tensor());
      output_ = call(tensors);
      graph_->capture_end();
    } catch (...) {
      abandon(pool);
      throw;
    }
    for (auto& input : inputs_) input.recorded();
  }

  torch::Tensor replay(const std::vector<torch::Tensor>& arguments) override {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].fill(arguments[i]);
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
        c10::cuda::CUDACachingAllocator::endAllocateToPool(
            inputs_.front().tensor().device().index(), pool);
      } catch (const std::exception&) {
      }
    }
    static_cast<void>(graph_.release());
  }

  std::vector<GraphInput> inputs_;
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
  const RecordingScope recording;
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
