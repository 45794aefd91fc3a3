#pragma once

#include <torch/script.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bespoke/model/call_graphs.h"
#include "bespoke/model/network.h"
#include "bespoke/model/network_program.h"

namespace bespoke {

// A network of any format, ready to be called on tensors that have the batch in front. Where a
// batch does not fit the memory it is computed in halves, and later batches in pieces of that size.
// Errors say what is wrong with the file or the call.
class LoadedNetwork : public std::enable_shared_from_this<LoadedNetwork> {
 public:
  LoadedNetwork(std::unique_ptr<NetworkProgram> program, const std::string& source,
                const NetworkOptions& options);

  // Calls forward(arguments ...); the result must be a tensor of `shape` behind the batch.
  torch::Tensor call(const std::vector<torch::Tensor>& arguments,
                     const std::vector<int64_t>& shape) const;
  // The same of a network that returns as many tensors as a sample has parts, in a tuple or a list:
  // [batch, numbers].
  torch::Tensor call(const std::vector<torch::Tensor>& arguments,
                     const std::vector<SamplePart>& parts) const;
  // The same of a network that no card describes: a tensor of any shape behind the batch.
  torch::Tensor call(const torch::Tensor& input) const;

  // Throws bad input unless forward takes so many arguments; `given` says which they are.
  void check_arguments(size_t count, const std::string& given) const;

  const NetworkOptions& options() const { return options_; }
  NetworkHabits habits() const { return {writes_input_.load(), returns_buffer_.load()}; }
  int64_t parameter_count() const { return program_->parameter_count(); }
  bool has_gradients() const { return program_->has_gradients(); }
  // Whether calls that recur are recorded: where one could not be, none is any more.
  bool records_calls() const { return graphs_ && graphs_->records(); }
  // Throws bad input where it is no TorchScript.
  const torch::jit::Module& script() const;

 private:
  // The tensor in a result for `input`; throws bad input if it is not what was asked for.
  using Accept =
      std::function<torch::Tensor(const torch::IValue& result, const torch::Tensor& input)>;
  // `manner` completes "it failed when it was called ...".
  torch::Tensor call_in_pieces(const std::vector<torch::Tensor>& arguments,
                               const std::string& manner, const Accept& accept) const;
  void refuse_gradients(const std::vector<torch::Tensor>& arguments) const;
  torch::IValue forward(const std::vector<torch::Tensor>& arguments,
                        const std::string& manner) const;
  torch::Tensor with_shape(const torch::IValue& result, const torch::Tensor& input,
                           const std::vector<int64_t>& shape) const;
  torch::Tensor with_parts(const torch::IValue& result, int64_t batch,
                           const std::vector<SamplePart>& parts) const;
  torch::Tensor with_batch(const torch::IValue& result, const torch::Tensor& input) const;
  void require_usable(const torch::IValue& result) const;
  void shrink(int64_t failed) const;
  // `failure` says what does not work where calls cannot be recorded.
  std::unique_ptr<CallGraphs> graphs(const std::string& failure) const;
  bool records_gradients(const std::vector<torch::Tensor>& piece) const;
  // Whether there was any memory to give back.
  bool give_up_graphs() const;
  torch::Tensor result_for(const std::vector<torch::Tensor>& piece, const std::string& manner,
                           const Accept& accept) const;
  // May write into the piece.
  torch::Tensor called_on(const std::vector<torch::Tensor>& piece, const std::string& manner,
                          const Accept& accept) const;

  std::unique_ptr<NetworkProgram> program_;
  std::string source_;
  NetworkOptions options_;
  mutable std::atomic<int64_t> most_at_once_;
  mutable std::atomic<bool> writes_input_{false}, returns_buffer_{false},
      has_differentiated_{false};
  // Null where calls are not recorded, and where there are no gradients.
  std::unique_ptr<CallGraphs> graphs_, gradient_graphs_;
};

}  // namespace bespoke
