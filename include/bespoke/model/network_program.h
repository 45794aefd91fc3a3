#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "bespoke/model/network.h"

namespace torch::jit {
struct Module;
}

namespace bespoke {

// What forward of a network takes, in order; those behind the first `needed` may be left out.
struct NetworkArguments {
  std::vector<std::string> names;
  size_t needed = 0;
};

// What a file of a network is once it is loaded: a function of tensors that have the batch in
// front. Formats differ in this alone; what calls need beside it (pieces that fit the memory, CUDA
// graphs, copies of what is given and kept) a LoadedNetwork adds to any.
class NetworkProgram {
 public:
  virtual ~NetworkProgram() = default;

  // Runs the network. It may write into the arguments, which are contiguous, and return a tensor
  // that it keeps. Threads may call it at once.
  virtual torch::IValue run(const std::vector<torch::Tensor>& arguments) = 0;

  virtual NetworkArguments arguments() const = 0;
  virtual int64_t parameter_count() const = 0;
  // Whether its results can be differentiated in its arguments.
  virtual bool has_gradients() const = 0;
  // The largest batch it takes.
  virtual int64_t most_at_once() const { return std::numeric_limits<int64_t>::max(); }
  // The module of a TorchScript file; null for all else.
  virtual const torch::jit::Module* script() const { return nullptr; }
};

// The program of a TorchScript module that has a method forward.
NetworkArguments arguments_of(const torch::jit::Module& module);
int64_t parameter_count(const torch::jit::Module& module);

// `source` is what errors call the network, such as its file.
NetworkPtr make_network(std::unique_ptr<NetworkProgram> program, const std::string& source,
                        const NetworkOptions& options = {});

}  // namespace bespoke
