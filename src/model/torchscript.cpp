#include "bespoke/model/torchscript.h"

#include <fmt/ranges.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <atomic>
#include <limits>
#include <sstream>
#include <utility>

#include "bespoke/core/error.h"
#include "bespoke/core/file.h"
#include "bespoke/core/sha256.h"
#include "bespoke/core/text.h"
#include "bespoke/model/fields.h"

namespace bespoke {

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What LibTorch's message means for a user.
std::string explain_load_failure(const std::string& message, const std::string& content) {
  if (contains(message, "Unknown builtin op")) {
    const size_t at = message.find("Unknown builtin op");
    const std::string op = split(message.substr(at), '\n').front();
    return fmt::format(
        "it uses an operator that LibTorch {}.{} lacks ({}); export it again without that operator",
        TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, op);
  }
  const bool zip = content.rfind("PK", 0) == 0;
  if (!zip) return "it is not a TorchScript file; save it with torch.jit.script or torch.jit.trace";
  if (!contains(content, "PK\x05\x06")) return "it is truncated";  // no end of the zip directory
  if (!contains(content, "/code/")) {
    return "it holds weights without code (a state_dict or pickled module); save the module with "
           "torch.jit.script or torch.jit.trace";
  }
  return "it is damaged, or LibTorch cannot read it: " + split(message, '\n').front();
}

torch::jit::Module load_module(const ModelCard& card, const TorchScriptOptions& options) {
  const std::string path = card.weights.string();
  const std::string content = read_file(card.weights);
  if (!card.weights_sha256.empty() && sha256(content) != card.weights_sha256) {
    throw bad_input("{} is not the file the card was written for (sha256 {} instead of {})", path,
                    sha256(content), card.weights_sha256);
  }
  try {
    std::istringstream stream(content);
    torch::jit::Module module = torch::jit::load(stream, torch::Device(torch::kCPU));
    module.eval();
    module.to(options.device, options.dtype);
    return module;
  } catch (const std::exception& error) {
    throw bad_input("cannot load {}: {}", path, explain_load_failure(error.what(), content));
  }
}

bool is_out_of_memory(const std::exception& error) {
  const std::string message = error.what();
  return contains(message, "out of memory") || contains(message, "can't allocate memory");
}

class TorchScriptModel : public Model {
 public:
  TorchScriptModel(const ModelCard& card, const TorchScriptOptions& options)
      : card_(card), options_(options), module_(load_module(card, options)) {}

  torch::Tensor predict(const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions) const override {
    const int64_t batch = x.size(0);
    const torch::Tensor input = x.to(options_.device, options_.dtype);
    const torch::Tensor times = time_argument(t);
    const Conditions values = condition_arguments(conditions, batch);
    std::vector<torch::Tensor> parts;
    for (int64_t begin = 0; begin < batch;) {
      const int64_t end = std::min(batch, begin + most_at_once_.load());
      try {
        parts.push_back(call(input.slice(0, begin, end), times.slice(0, begin, end),
                             slice(values, begin, end)));
        begin = end;
      } catch (const std::exception& error) {
        if (!is_out_of_memory(error)) throw;
        shrink(end - begin);
      }
    }
    return parts.size() == 1 ? parts.front() : torch::cat(parts);
  }

  Prediction prediction() const override { return card_.prediction; }
  SchedulePtr schedule() const override { return card_.schedule; }
  std::vector<int64_t> sample_shape() const override { return card_.sample_shape; }
  torch::ScalarType dtype() const override { return options_.dtype; }

 private:
  torch::Tensor time_argument(const torch::Tensor& t) const {
    const torch::Tensor times = time_function(
        t, [this](double time) { return network_time(card_.time, *card_.schedule, time); });
    if (card_.time.integer) return times.round().to(options_.device, torch::kLong);
    return times.to(options_.device, options_.dtype);
  }

  Conditions condition_arguments(const Conditions& given, int64_t batch) const {
    Conditions values;
    for (const auto& condition : card_.conditions) {
      const auto found = given.find(condition.name);
      if (found == given.end() && condition.null < 0) {
        throw bad_input("the model needs the condition '{}' (0 to {}), none was given",
                        condition.name, condition.classes - 1);
      }
      const torch::Tensor value =
          found == given.end() ? torch::full({batch}, condition.null, torch::kLong) : found->second;
      values[condition.name] = value.to(options_.device);
    }
    return values;
  }

  torch::Tensor call(const torch::Tensor& x, const torch::Tensor& t,
                     const Conditions& conditions) const {
    std::vector<torch::IValue> arguments = {x, t};
    for (const auto& condition : card_.conditions) {
      arguments.emplace_back(conditions.at(condition.name));
    }
    const torch::IValue result = forward(std::move(arguments));
    if (!result.isTensor() || result.toTensor().sizes() != x.sizes()) {
      throw bad_input(
          "{} returned {} for an input of shape {}; the card's sample_shape or the model is wrong",
          card_.weights.string(),
          result.isTensor()
              ? fmt::format("a tensor of shape {}", fmt::join(result.toTensor().sizes(), "x"))
              : "no tensor",
          fmt::join(x.sizes(), "x"));
    }
    return result.toTensor();
  }

  torch::IValue forward(std::vector<torch::IValue> arguments) const {
    try {
      // Running a module is not declared const, though it leaves this one as it was.
      torch::jit::Module module = module_;
      return module.forward(std::move(arguments));
    } catch (const std::exception& error) {
      if (is_out_of_memory(error)) throw;
      // The interpreter prints a traceback; what went wrong is its last line that says something.
      const auto lines = split(error.what(), '\n');
      std::string last;
      for (const auto& line : lines) {
        if (contains(line, "Error") || contains(line, "Expected")) last = line;
      }
      throw bad_input("{} failed when it was called as the card says: {}", card_.weights.string(),
                      last.empty() ? lines.front() : last);
    }
  }

  void shrink(int64_t failed) const {
    if (failed == 1) {
      throw Error(ErrorKind::device,
                  "out of memory even for one sample; use a smaller model or --dtype bf16");
    }
    most_at_once_ = failed / 2;
  }

  ModelCard card_;
  TorchScriptOptions options_;
  torch::jit::Module module_;
  mutable std::atomic<int64_t> most_at_once_{std::numeric_limits<int64_t>::max() / 2};
};

}  // namespace

ModelPtr load_torchscript(const ModelCard& card, const TorchScriptOptions& options) {
  if (card.format != "torchscript") {
    throw bad_input("model format '{}' is not known; the formats are: torchscript", card.format);
  }
  return std::make_shared<TorchScriptModel>(card, options);
}

}  // namespace bespoke
