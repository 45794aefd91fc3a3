#pragma once

#include <torch/script.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "bespoke/model/torchscript.h"

namespace bespoke {

// A TorchScript file, loaded and ready to be called on tensors that have the batch in front. Where
// a batch does not fit the memory it is computed in halves, and later batches in pieces of that
// size. Errors say what is wrong with the file or the call.
class ScriptModule {
 public:
  // `expected_sha256` may be empty: not checked.
  ScriptModule(const std::filesystem::path& path, const std::string& expected_sha256,
               const TorchScriptOptions& options);

  // Calls forward(arguments ...); the result must be a tensor of `shape` behind the batch.
  torch::Tensor call(const std::vector<torch::Tensor>& arguments,
                     const std::vector<int64_t>& shape) const;

  const TorchScriptOptions& options() const { return options_; }
  int64_t parameter_count() const;

 private:
  torch::Tensor call_once(const std::vector<torch::Tensor>& arguments,
                          const std::vector<int64_t>& shape) const;
  torch::IValue forward(const std::vector<torch::Tensor>& arguments) const;
  void shrink(int64_t failed) const;

  std::string path_;
  TorchScriptOptions options_;
  torch::jit::Module module_;
  mutable std::atomic<int64_t> most_at_once_;
};

}  // namespace bespoke
