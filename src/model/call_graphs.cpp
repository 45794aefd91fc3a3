#include "bespoke/model/call_graphs.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/tensor/recording.h"
#include "libtorch_message.h"
#include "owned.h"

namespace bespoke {

using namespace detail;

CallGraphs::CallGraphs(CallRecorder recorder, std::function<void(const std::string&)> on_failure)
    : recorder_(std::move(recorder)), on_failure_(std::move(on_failure)) {}

CallGraphs::Shape CallGraphs::shape_of(const std::vector<torch::Tensor>& arguments) {
  Shape shape;
  for (const auto& argument : arguments) {
    shape.push_back(static_cast<int64_t>(argument.scalar_type()));
    shape.push_back(argument.dim());
    shape.insert(shape.end(), argument.sizes().begin(), argument.sizes().end());
  }
  return shape;
}

torch::Tensor CallGraphs::call(const std::vector<torch::Tensor>& arguments,
                               const TensorCall& call) {
  if (!is_recording()) {
    // A recording has one set of buffers: threads take turns.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (recorder_) {
      const Shape shape = shape_of(arguments);
      if (has_to_be_recorded(shape)) record(shape, arguments, call);
      const auto entry = shapes_.find(shape);
      if (entry != shapes_.end() && entry->second.recorded) {
        return entry->second.recorded->replay(arguments);
      }
    }
  }
  return call(copies_of(arguments));
}

bool CallGraphs::has_to_be_recorded(const Shape& shape) {
  Seen& seen = shapes_[shape];
  seen.last = ++clock_;
  forget_oldest(false, kMostShapes);
  return !seen.recorded && seen.calls++ == kCallsBefore;
}

void CallGraphs::record(const Shape& shape, const std::vector<torch::Tensor>& arguments,
                        const TensorCall& call) {
  forget_oldest(true, kMostGraphs - 1);
  try {
    shapes_[shape].recorded = recorder_(arguments, call);
  } catch (const std::exception& error) {
    stop(is_out_of_memory(error) ? "no memory is left for them" : last_error_line(error.what()));
  }
}

// Keeps those called last, of the shapes that are recorded or of all.
void CallGraphs::forget_oldest(bool recorded, size_t most) {
  const auto counts = [&](const auto& entry) { return !recorded || entry.second.recorded; };
  while (static_cast<size_t>(std::count_if(shapes_.begin(), shapes_.end(), counts)) > most) {
    auto oldest = shapes_.end();
    for (auto it = shapes_.begin(); it != shapes_.end(); ++it) {
      if (counts(*it) && (oldest == shapes_.end() || it->second.last < oldest->second.last)) {
        oldest = it;
      }
    }
    shapes_.erase(oldest);
  }
}

bool CallGraphs::records() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return recorder_ != nullptr;
}

bool CallGraphs::has_recordings() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return holds_any();
}

bool CallGraphs::holds_any() const {
  return std::any_of(shapes_.begin(), shapes_.end(),
                     [](const auto& entry) { return entry.second.recorded != nullptr; });
}

bool CallGraphs::give_up(const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stop(why);
}

bool CallGraphs::stop(const std::string& why) {
  const bool any = holds_any();
  if (recorder_ && on_failure_) on_failure_(why);
  recorder_ = nullptr;
  shapes_.clear();
  return any;
}

}  // namespace bespoke
