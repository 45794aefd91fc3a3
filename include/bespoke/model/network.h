#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"

namespace bespoke {

// How a network is loaded and called.
struct NetworkOptions {
  torch::Device device = torch::kCPU;  // where it computes
  // Weights and inputs are converted to it. A compiled network has its own; this must be the same.
  torch::ScalarType dtype = torch::kFloat;
  // Whether it is called on each sample alone. Slower, but a sample's numbers are then the same to
  // the last bit whatever else is computed with it, which a library's products do not promise.
  bool one_by_one = false;
  // Whether, on CUDA and without gradients, calls of a shape that recurs are recorded as graphs and
  // replayed (CallGraphs).
  bool graphs = true;
  // Told, once, why the network cannot be recorded.
  std::function<void(const std::string& note)> on_note = {};
};

// A loaded network, apart from what a card says of it.
class LoadedNetwork;
// A loaded network, shared by all that call it.
using NetworkPtr = std::shared_ptr<const LoadedNetwork>;

// Loads the network of a card. Where a batch does not fit the memory the network computes it in
// halves, and later batches in pieces of that size. Errors say what is wrong with the file:
// missing, truncated, of another format or card, compiled for another device or precision, or an
// operator this LibTorch lacks.
NetworkPtr load_network(const ModelCard& card, const NetworkOptions& options = {});
// The same for a TorchScript file that no card describes, which call_network calls.
NetworkPtr load_network(const std::filesystem::path& file, const NetworkOptions& options = {});
// Calls a network on x [batch, ...] alone. The result has the batch in front and any shape behind
// it.
torch::Tensor call_network(const LoadedNetwork& network, const torch::Tensor& x);
// How many parameters the network has.
int64_t parameter_count(const LoadedNetwork& network);
// The device that the network computes on.
torch::Device network_device(const LoadedNetwork& network);
// Whether the network can be differentiated: TorchScript can, a compiled network cannot.
bool has_gradients(const LoadedNetwork& network);

// Habits of a network that do no harm here: it is given copies, and what it may still change is
// copied.
struct NetworkHabits {
  bool writes_input;    // it changes the tensors it is given
  bool returns_buffer;  // it returns a tensor that it keeps
};
// The habits that the calls of a network so far have shown.
NetworkHabits network_habits(const LoadedNetwork& network);

// The model of a network and its card. The network is called as forward(x, time, condition ...)
// with the conditions in the order of the card, and clipped where the card says so. Where the
// network has gradients, differentiable in x and, unless the card asks for integer times, in t.
ModelPtr network_model(NetworkPtr network, const ModelCard& card);

// Loads the network of a card and makes its model.
ModelPtr load_model(const ModelCard& card, const NetworkOptions& options = {});

// The decoder of a latent model: [batch, latent ...] -> [batch, decoded ...], float32 or wider,
// differentiable.
class Decoder {
 public:
  // Loads the network of the card.
  Decoder(const DecoderCard& card, const NetworkOptions& options);
  // What the latents look or sound like.
  torch::Tensor decode(const torch::Tensor& latents) const;
  // The card it was made from.
  const DecoderCard& card() const { return card_; }
  // The network it calls.
  const LoadedNetwork& module() const { return *module_; }

 private:
  DecoderCard card_;
  NetworkPtr module_;
};
// A decoder, shared by all that call it.
using DecoderPtr = std::shared_ptr<const Decoder>;

// The encoder of a model that fills gaps in sounds: [batch, 1, length] -> [batch, latent ...],
// float32 or wider. The card must have one.
class Encoder {
 public:
  // Loads the network of the card.
  Encoder(const ModelCard& card, const NetworkOptions& options);
  // The latents of sounds.
  torch::Tensor encode(const torch::Tensor& sounds) const;

 private:
  std::vector<int64_t> latent_shape_;
  double scale_, shift_;
  NetworkPtr module_;
};
// An encoder, shared by all that call it.
using EncoderPtr = std::shared_ptr<const Encoder>;

}  // namespace bespoke
