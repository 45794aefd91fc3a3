#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace bespoke {

// A function of tensors that may write into them, such as a network.
using TensorCall = std::function<torch::Tensor(const std::vector<torch::Tensor>& arguments)>;

// A call as a device has recorded it, for arguments of the same shapes and types.
class RecordedCall {
 public:
  virtual ~RecordedCall() = default;
  // The result for these arguments, owned by the caller.
  virtual torch::Tensor replay(const std::vector<torch::Tensor>& arguments) = 0;
};

// Records a call that was made with such arguments before. Throws where it cannot, or where the
// recording answers otherwise than the call.
using CallRecorder = std::function<std::unique_ptr<RecordedCall>(
    const std::vector<torch::Tensor>& arguments, const TensorCall& call)>;

// Records calls as CUDA graphs, whose kernels are launched all at once: a small batch of a large
// network spends most of its time launching them one by one. All graphs of a recorder share their
// memory. Null where the program was built without CUDA.
CallRecorder cuda_graph_recorder();

// The calls of one function, without gradients: of a shape that recurs they are recorded, and
// replayed from then on. Where one cannot be recorded, none is any more. Calls that are part of
// another recording are made plainly. Threads may share it.
class CallGraphs {
 public:
  // A recording costs a few calls, and this many must have shown that it will pay: then no sequence
  // of shapes costs more than twice what it would without.
  static constexpr int64_t kCallsBefore = 12;
  // How many recordings are kept, those used last, and how many shapes are remembered.
  static constexpr size_t kMostGraphs = 8, kMostShapes = 64;

  // `on_failure`, where there is one, is told once why nothing is recorded any more.
  explicit CallGraphs(CallRecorder recorder,
                      std::function<void(const std::string& why)> on_failure = nullptr);

  // Calls with copies of the arguments, or replays a recording of such a call.
  torch::Tensor call(const std::vector<torch::Tensor>& arguments, const TensorCall& call);

  // Whether calls that recur are recorded: where one could not be, none is any more.
  bool records() const;
  bool has_recordings() const;

  // Gives the memory of the recordings back and records no more; whether there were any.
  bool give_up(const std::string& why);

 private:
  using Shape = std::vector<int64_t>;  // types and sizes of all arguments
  struct Seen {
    int64_t calls = 0;
    uint64_t last = 0;  // when it was called last
    std::unique_ptr<RecordedCall> recorded;
  };

  static Shape shape_of(const std::vector<torch::Tensor>& arguments);
  bool has_to_be_recorded(const Shape& shape);
  void record(const Shape& shape, const std::vector<torch::Tensor>& arguments,
              const TensorCall& call);
  void forget_oldest(bool recorded, size_t most);
  bool stop(const std::string& why);
  bool holds_any() const;

  mutable std::mutex mutex_;
  CallRecorder recorder_;  // null once it failed
  std::function<void(const std::string& why)> on_failure_;
  std::map<Shape, Seen> shapes_;
  uint64_t clock_ = 0;
};

}  // namespace bespoke
