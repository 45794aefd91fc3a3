#pragma once

#include <torch/script.h>
#include <torch/torch.h>

#include <filesystem>
#include <memory>
#include <string>

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"

namespace bespoke {

// A TorchScript module whose weights are trained. Its parameters are the module's own, in float32
// whatever the file has, so that what trains a network trains it. It is called as it was exported,
// without dropout.
class ScriptStudent : public torch::nn::Module {
 public:
  // Loads the weights of a card; bad input where a frozen module has none left to train.
  ScriptStudent(const ModelCard& card, torch::Device device);

  // The model that the card describes, with the weights as they are now, differentiable in them.
  // Products are in `dtype`, everything that needs more in float32.
  ModelPtr model(const ModelCard& card, torch::ScalarType dtype) const;

  // The file as it was loaded, with these weights, of all parameters one after another, in place of
  // its own and in its own precision.
  std::string file_with(const torch::Tensor& weights) const;

 private:
  torch::Device device_;
  std::filesystem::path path_;
  torch::jit::Module as_loaded_, module_;
};

}  // namespace bespoke
