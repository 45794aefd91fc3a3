#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"

namespace bespoke {

struct NetworkOptions {
  torch::Device device = torch::kCPU;
  // Weights and inputs are converted to it. A compiled network has its own; this must be the same.
  torch::ScalarType dtype = torch::kFloat;
  // Called on each sample alone: its numbers are then the same whatever else is computed with it,
  // which a library's products do not promise of the last bits. Slower.
  bool one_by_one = false;
  // On CUDA, without gradients: calls of a shape that recurs are recorded as graphs and replayed
  // (CallGraphs). `on_note` is told, once, where the network cannot be.
  bool graphs = true;
  std::function<void(const std::string& note)> on_note = {};
};

// A loaded network, apart from what a card says of it.
class LoadedNetwork;
using NetworkPtr = std::shared_ptr<const LoadedNetwork>;

// Where a batch does not fit the memory the network computes it in halves, and later batches in
// pieces of that size. Errors say what is wrong with the file: missing, truncated, of another
// format or card, compiled for another device or precision, or an operator this LibTorch lacks.
NetworkPtr load_network(const ModelCard& card, const NetworkOptions& options = {});
// The same of a TorchScript file that no card describes, called on x [batch, ...] alone as
// call_network does; its result has the batch in front and any shape behind it.
NetworkPtr load_network(const std::filesystem::path& file, const NetworkOptions& options = {});
torch::Tensor call_network(const LoadedNetwork& network, const torch::Tensor& x);
int64_t parameter_count(const LoadedNetwork& network);
torch::Device network_device(const LoadedNetwork& network);
// Whether it can be differentiated: TorchScript can, a compiled network cannot.
bool has_gradients(const LoadedNetwork& network);

// What its calls so far have shown. Neither does harm: a network is given copies, and what it may
// still change is copied.
struct NetworkHabits {
  bool writes_input;    // it changes the tensors it is given
  bool returns_buffer;  // it returns a tensor that it keeps
};
NetworkHabits network_habits(const LoadedNetwork& network);

// The network as a card declares it, called as forward(x, time, condition ...) with the conditions
// in the order of the card, and clipped where the card says so. Where the network has gradients,
// differentiable in x and, unless the card asks for integer times, in t.
ModelPtr network_model(NetworkPtr network, const ModelCard& card);

// Both in one.
ModelPtr load_model(const ModelCard& card, const NetworkOptions& options = {});

// The decoder of a latent model: [batch, latent ...] -> [batch, decoded ...], float32 or wider,
// differentiable.
class Decoder {
 public:
  Decoder(const DecoderCard& card, const NetworkOptions& options);
  torch::Tensor decode(const torch::Tensor& latents) const;
  const DecoderCard& card() const { return card_; }
  const LoadedNetwork& module() const { return *module_; }

 private:
  DecoderCard card_;
  NetworkPtr module_;
};
using DecoderPtr = std::shared_ptr<const Decoder>;

// The encoder of a model that fills gaps in sounds: [batch, 1, length] -> [batch, latent ...],
// float32 or wider. The card must have one.
class Encoder {
 public:
  Encoder(const ModelCard& card, const NetworkOptions& options);
  torch::Tensor encode(const torch::Tensor& sounds) const;

 private:
  std::vector<int64_t> latent_shape_;
  double scale_, shift_;
  NetworkPtr module_;
};
using EncoderPtr = std::shared_ptr<const Encoder>;

}  // namespace bespoke
