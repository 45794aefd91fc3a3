#include "script_module.h"

#include <fmt/ranges.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/sha256.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

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

torch::jit::Module load_module(const std::filesystem::path& path,
                               const std::string& expected_sha256,
                               const TorchScriptOptions& options) {
  const std::string content = read_file(path);
  if (!expected_sha256.empty() && sha256(content) != expected_sha256) {
    throw bad_input("{} is not the file the card was written for (sha256 {} instead of {})",
                    path.string(), sha256(content), expected_sha256);
  }
  try {
    std::istringstream stream(content);
    torch::jit::Module module = torch::jit::load(stream, torch::Device(torch::kCPU));
    module.eval();
    module.to(options.device, options.dtype);
    for (auto parameter : module.parameters()) parameter.set_requires_grad(false);
    return module;
  } catch (const std::exception& error) {
    throw bad_input("cannot load {}: {}", path.string(),
                    explain_load_failure(error.what(), content));
  }
}

// The interpreter prints a traceback; what went wrong is its last line that says something.
std::string last_error_line(const std::string& traceback) {
  const auto lines = split(traceback, '\n');
  std::string last = lines.front();
  for (const auto& line : lines) {
    if (contains(line, "Error") || contains(line, "Expected")) last = line;
  }
  return last;
}

std::string describe_result(const torch::IValue& result) {
  if (!result.isTensor()) return "no tensor";
  return fmt::format("a tensor of shape {}", fmt::join(result.toTensor().sizes(), "x"));
}

}  // namespace

ScriptModule::ScriptModule(const std::filesystem::path& path, const std::string& expected_sha256,
                           const TorchScriptOptions& options)
    : path_(path.string()),
      options_(options),
      module_(load_module(path, expected_sha256, options)),
      most_at_once_(std::numeric_limits<int64_t>::max() / 2) {}

torch::Tensor ScriptModule::call(const std::vector<torch::Tensor>& arguments,
                                 const std::vector<int64_t>& shape) const {
  return call_in_pieces(arguments, "as the card says",
                        [&](const torch::IValue& result, const torch::Tensor& input) {
                          return with_shape(result, input, shape);
                        });
}

torch::Tensor ScriptModule::call(const torch::Tensor& input) const {
  return call_in_pieces({input},
                        fmt::format("on an input of shape {}", fmt::join(input.sizes(), "x")),
                        [&](const torch::IValue& result, const torch::Tensor& piece) {
                          return with_batch(result, piece);
                        });
}

torch::Tensor ScriptModule::call_in_pieces(const std::vector<torch::Tensor>& arguments,
                                           const std::string& manner, const Accept& accept) const {
  const int64_t batch = arguments.front().size(0);
  std::vector<torch::Tensor> parts;
  for (int64_t begin = 0; begin < batch;) {
    const int64_t end = std::min(batch, begin + most_at_once_.load());
    std::vector<torch::Tensor> piece;
    for (const auto& argument : arguments) piece.push_back(argument.slice(0, begin, end));
    try {
      parts.push_back(accept(forward(piece, manner), piece.front()));
      begin = end;
    } catch (const std::exception& error) {
      // With gradients it is the graph that does not fit, and pieces of it would be kept as well.
      if (!is_out_of_memory(error) || torch::GradMode::is_enabled()) throw;
      shrink(end - begin);
    }
  }
  return parts.size() == 1 ? parts.front() : torch::cat(parts);
}

int64_t ScriptModule::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : module_.parameters()) count += parameter.numel();
  return count;
}

torch::Tensor ScriptModule::with_shape(const torch::IValue& result, const torch::Tensor& input,
                                       const std::vector<int64_t>& shape) const {
  std::vector<int64_t> expected = {input.size(0)};
  expected.insert(expected.end(), shape.begin(), shape.end());
  if (!result.isTensor() || result.toTensor().sizes() != torch::IntArrayRef(expected)) {
    throw bad_input(
        "{} returned {} for an input of shape {}, the card says {}; its sample_shape or the model "
        "is wrong",
        path_, describe_result(result), fmt::join(input.sizes(), "x"), fmt::join(expected, "x"));
  }
  return result.toTensor();
}

torch::Tensor ScriptModule::with_batch(const torch::IValue& result,
                                       const torch::Tensor& input) const {
  if (!result.isTensor() || result.toTensor().dim() == 0 ||
      result.toTensor().size(0) != input.size(0)) {
    throw bad_input("{} returned {} for an input of shape {}, expected one row for each of the {}",
                    path_, describe_result(result), fmt::join(input.sizes(), "x"), input.size(0));
  }
  return result.toTensor();
}

torch::IValue ScriptModule::forward(const std::vector<torch::Tensor>& arguments,
                                    const std::string& manner) const {
  try {
    // Running a module is not declared const, though it leaves this one as it was.
    torch::jit::Module module = module_;
    return module.forward({arguments.begin(), arguments.end()});
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    throw bad_input("{} failed when it was called {}: {}", path_, manner,
                    last_error_line(error.what()));
  }
}

void ScriptModule::shrink(int64_t failed) const {
  if (failed == 1) {
    throw Error(ErrorKind::device,
                fmt::format("out of memory in {} even for one sample at a time; use a narrower "
                            "precision, a device with more memory, or free some",
                            path_));
  }
  most_at_once_ = failed / 2;
}

}  // namespace bespoke
