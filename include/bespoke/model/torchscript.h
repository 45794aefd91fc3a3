#pragma once

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"

namespace bespoke {

struct TorchScriptOptions {
  torch::Device device = torch::kCPU;
  torch::ScalarType dtype = torch::kFloat;  // weights and inputs are converted to it
};

// The network of a card, called as forward(x, time, condition ...) with the conditions in the order
// of the card. Differentiable in x and, unless the card asks for integer times, in t. Where a batch
// does not fit the memory it is computed in halves, and later batches in pieces of that size.
// Errors say what is wrong with the file: missing, truncated, not TorchScript, weights of another
// card, or an operator this LibTorch lacks.
ModelPtr load_torchscript(const ModelCard& card, const TorchScriptOptions& options = {});

}  // namespace bespoke
