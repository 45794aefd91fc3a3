#include "loaded_network.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/model/recorded_gradients.h"
#include "bespoke/model/sample_parts.h"
#include "libtorch_message.h"
#include "owned.h"

namespace bespoke {

using namespace detail;

namespace {

std::string describe_result(const torch::IValue& result) {
  if (!result.isTensor()) return "no tensor";
  const torch::Tensor& tensor = result.toTensor();
  return fmt::format("a {} tensor of {} numbers and shape {}",
                     tensor.layout() == torch::kStrided ? "dense" : "sparse",
                     torch::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), "x"));
}

// The values of a tuple or a list; none of all else.
std::vector<torch::IValue> values_in(const torch::IValue& result) {
  if (result.isTuple()) return result.toTuple()->elements().vec();
  std::vector<torch::IValue> values;
  if (result.isList()) {
    for (const torch::IValue& value : result.toListRef()) values.push_back(value);
  }
  return values;
}

bool is_usable(const torch::IValue& result) {
  return result.isTensor() && result.toTensor().layout() == torch::kStrided &&
         result.toTensor().is_floating_point();
}

}  // namespace

LoadedNetwork::LoadedNetwork(std::unique_ptr<NetworkProgram> program, const std::string& source,
                             const NetworkOptions& options)
    : program_(std::move(program)),
      source_(source),
      options_(options),
      most_at_once_(options.one_by_one ? 1 : program_->most_at_once()) {
  if (!options.graphs || !options.device.is_cuda()) return;
  graphs_ = graphs("cannot be run");
  if (has_gradients()) gradient_graphs_ = graphs("cannot be differentiated");
}

std::unique_ptr<CallGraphs> LoadedNetwork::graphs(const std::string& failure) const {
  return std::make_unique<CallGraphs>(
      cuda_graph_recorder(), [this, failure](const std::string& why) {
        if (!options_.on_note) return;
        options_.on_note(
            fmt::format("{} {} as a CUDA graph ({}): its kernels are launched one by one, which is "
                        "slower for small batches",
                        source_, failure, why));
      });
}

torch::Tensor LoadedNetwork::call(const std::vector<torch::Tensor>& arguments,
                                  const std::vector<int64_t>& shape) const {
  return call_in_pieces(arguments, "as the card says",
                        [this, shape](const torch::IValue& result, const torch::Tensor& input) {
                          return with_shape(result, input, shape);
                        });
}

torch::Tensor LoadedNetwork::call(const std::vector<torch::Tensor>& arguments,
                                  const std::vector<SamplePart>& parts) const {
  return call_in_pieces(arguments, "as the card says",
                        [this, parts](const torch::IValue& result, const torch::Tensor& input) {
                          return with_parts(result, input.size(0), parts);
                        });
}

torch::Tensor LoadedNetwork::call(const torch::Tensor& input) const {
  return call_in_pieces({input},
                        fmt::format("on an input of shape {}", fmt::join(input.sizes(), "x")),
                        [this](const torch::IValue& result, const torch::Tensor& piece) {
                          return with_batch(result, piece);
                        });
}

torch::Tensor LoadedNetwork::call_in_pieces(const std::vector<torch::Tensor>& arguments,
                                            const std::string& manner, const Accept& accept) const {
  refuse_gradients(arguments);
  const torch::AutoGradMode gradients(torch::GradMode::is_enabled() && has_gradients());
  const int64_t batch = arguments.front().size(0);
  std::vector<torch::Tensor> parts;
  for (int64_t begin = 0; begin < batch;) {
    const int64_t end = begin + std::min(batch - begin, most_at_once_.load());
    std::vector<torch::Tensor> piece;
    for (const auto& argument : arguments) piece.push_back(argument.slice(0, begin, end));
    try {
      parts.push_back(result_for(piece, manner, accept));
      begin = end;
    } catch (const std::exception& error) {
      // With gradients it is the graph that does not fit, and pieces of it would be kept as well.
      if (!is_out_of_memory(error) || torch::GradMode::is_enabled()) throw;
      if (give_up_graphs()) continue;
      shrink(end - begin);
    }
  }
  return parts.size() == 1 ? parts.front() : torch::cat(parts);
}

void LoadedNetwork::refuse_gradients(const std::vector<torch::Tensor>& arguments) const {
  if (has_gradients() || !torch::GradMode::is_enabled()) return;
  const bool asked = std::any_of(arguments.begin(), arguments.end(),
                                 [](const auto& argument) { return argument.requires_grad(); });
  if (!asked) return;
  throw bad_input("{} is compiled and has no gradients; use the model as TorchScript for them",
                  source_);
}

torch::Tensor LoadedNetwork::result_for(const std::vector<torch::Tensor>& piece,
                                        const std::string& manner, const Accept& accept) const {
  const auto call = [&](const std::vector<torch::Tensor>& given) {
    return called_on(given, manner, accept);
  };
  if (graphs_ && !torch::GradMode::is_enabled()) return graphs_->call(piece, call);
  if (records_gradients(piece)) {
    // Its gradient calls it later, perhaps when nothing else keeps the network.
    const auto kept = [self = shared_from_this(), manner,
                       accept](const std::vector<torch::Tensor>& given) {
      return self->called_on(given, manner, accept);
    };
    return call_with_recorded_gradients(piece, kept, *graphs_, *gradient_graphs_);
  }
  torch::Tensor output = call(copies_of(piece));
  if (output.requires_grad()) has_differentiated_ = true;
  return output;
}

// Of models, which are called on x, t and conditions (decoders take one argument), and only once a
// plain call has shown that there is a gradient: a recorded one would be zero where there is none.
bool LoadedNetwork::records_gradients(const std::vector<torch::Tensor>& piece) const {
  return gradient_graphs_ && piece.size() >= 2 && piece.front().requires_grad() &&
         has_differentiated_ && gradient_graphs_->records();
}

bool LoadedNetwork::give_up_graphs() const {
  constexpr char kWhy[] = "their memory is needed for larger batches";
  bool any = false;
  for (const auto* graphs : {&graphs_, &gradient_graphs_}) {
    if (*graphs && (*graphs)->has_recordings()) any = (*graphs)->give_up(kWhy) || any;
  }
  return any;
}

torch::Tensor LoadedNetwork::called_on(const std::vector<torch::Tensor>& piece,
                                       const std::string& manner, const Accept& accept) const {
  torch::IValue result = forward(piece, manner);
  torch::Tensor output = accept(result, piece.front());
  result = {};  // else it would own the output too
  bool is_input = false;
  for (const torch::Tensor& input : piece) {
    if (input._version() > 0) writes_input_ = true;
    is_input = is_input || output.is_alias_of(input);
  }
  if (is_owned(output)) return output;
  // A graph keeps outputs that gradients need.
  if (!is_input && !output.requires_grad() && !is_own_view(output)) returns_buffer_ = true;
  return output.clone();
}

void LoadedNetwork::check_arguments(size_t count, const std::string& given) const {
  const NetworkArguments taken = program_->arguments();
  if (count >= taken.needed && count <= taken.names.size()) return;
  throw bad_input(
      "forward of {} takes {} arguments ({}), the card gives it {} ({}); list its conditions in "
      "the card, in their order",
      source_, taken.names.size(), fmt::join(taken.names, ", "), count, given);
}

const torch::jit::Module& LoadedNetwork::script() const {
  if (program_->script() != nullptr) return *program_->script();
  throw bad_input("{} is compiled, a TorchScript file is made of the model as TorchScript",
                  source_);
}

torch::Tensor LoadedNetwork::with_shape(const torch::IValue& result, const torch::Tensor& input,
                                        const std::vector<int64_t>& shape) const {
  std::vector<int64_t> expected = {input.size(0)};
  expected.insert(expected.end(), shape.begin(), shape.end());
  require_usable(result);
  if (result.toTensor().sizes() != torch::IntArrayRef(expected)) {
    throw bad_input(
        "{} returned {} for an input of shape {}, the card says {}; its sample_shape or the model "
        "is wrong, or it returns more than the prediction, as \"extra_channels\" says",
        source_, describe_result(result), fmt::join(input.sizes(), "x"), fmt::join(expected, "x"));
  }
  return result.toTensor();
}

torch::Tensor LoadedNetwork::with_parts(const torch::IValue& result, int64_t batch,
                                        const std::vector<SamplePart>& parts) const {
  const std::vector<torch::IValue> values = values_in(result);
  std::vector<torch::Tensor> tensors;
  for (size_t i = 0; i < parts.size() && values.size() == parts.size(); ++i) {
    std::vector<int64_t> expected = {batch};
    expected.insert(expected.end(), parts[i].shape.begin(), parts[i].shape.end());
    if (!is_usable(values[i]) || values[i].toTensor().sizes() != torch::IntArrayRef(expected)) {
      throw bad_input("{} returned {} as {}, the card says {}", source_, describe_result(values[i]),
                      parts[i].name, fmt::join(expected, "x"));
    }
    tensors.push_back(values[i].toTensor());
  }
  if (tensors.size() == parts.size()) return joined_parts(tensors);
  throw bad_input(
      "{} returned {}; it must return a tuple of {} tensors, the parts of a sample", source_,
      values.empty() ? describe_result(result) : fmt::format("{} values", values.size()),
      parts.size());
}

void LoadedNetwork::require_usable(const torch::IValue& result) const {
  if (is_usable(result)) return;
  throw bad_input("{} returned {}, it must return a dense tensor of floating-point numbers",
                  source_, describe_result(result));
}

torch::Tensor LoadedNetwork::with_batch(const torch::IValue& result,
                                        const torch::Tensor& input) const {
  require_usable(result);
  if (result.toTensor().dim() == 0 || result.toTensor().size(0) != input.size(0)) {
    throw bad_input("{} returned {} for an input of shape {}, expected one row for each of the {}",
                    source_, describe_result(result), fmt::join(input.sizes(), "x"), input.size(0));
  }
  return result.toTensor();
}

torch::IValue LoadedNetwork::forward(const std::vector<torch::Tensor>& arguments,
                                     const std::string& manner) const {
  try {
    return program_->run(arguments);
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    throw bad_input("{} failed when it was called {}: {}", source_, manner,
                    last_error_line(error.what()));
  }
}

void LoadedNetwork::shrink(int64_t failed) const {
  if (failed == 1) {
    throw Error(ErrorKind::device,
                fmt::format("out of memory in {} even for one sample at a time; use a narrower "
                            "precision, a device with more memory, or free some",
                            source_));
  }
  most_at_once_ = failed / 2;
}

NetworkPtr make_network(std::unique_ptr<NetworkProgram> program, const std::string& source,
                        const NetworkOptions& options) {
  return std::make_shared<LoadedNetwork>(std::move(program), source, options);
}

}  // namespace bespoke
