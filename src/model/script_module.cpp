#include "script_module.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/ranges.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>
#include <tuple>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/sha256.h"
#include "bespoke/base/text.h"
#include "owned.h"

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

// Bytes of the records that hold weights, the largest first.
std::vector<size_t> record_sizes(const std::string& content) {
  std::istringstream stream(content);
  caffe2::serialize::PyTorchStreamReader reader(&stream);
  std::vector<size_t> sizes;
  for (const auto& name : reader.getAllRecords()) {
    if (name.rfind("data/", 0) == 0) sizes.push_back(std::get<1>(reader.getRecord(name)));
  }
  std::sort(sizes.rbegin(), sizes.rend());
  return sizes;
}

// Bytes that the module's weights say they have, the largest first.
std::vector<size_t> storage_sizes(const torch::jit::Module& module) {
  std::map<const void*, size_t> storages;
  const auto add = [&](const torch::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    storages[tensor.storage().unsafeGetStorageImpl()] = tensor.storage().nbytes();
  };
  for (const auto& parameter : module.parameters()) add(parameter);
  for (const auto& buffer : module.buffers()) add(buffer);
  std::vector<size_t> sizes;
  for (const auto& [storage, bytes] : storages) sizes.push_back(bytes);
  std::sort(sizes.rbegin(), sizes.rend());
  return sizes;
}

// LibTorch takes a weight's size from its description and its numbers from a record, and does not
// compare them: a short record would be read beyond its end. Each weight needs a record of its own
// that is large enough.
void check_records(const torch::jit::Module& module, const std::string& content,
                   const std::string& source) {
  const auto records = record_sizes(content);
  const auto storages = storage_sizes(module);
  for (size_t i = 0; i < storages.size(); ++i) {
    const size_t found = i < records.size() ? records[i] : 0;
    if (found >= storages[i]) continue;
    throw bad_input("cannot load {}: it is damaged, a weight of {} bytes has {} in the file",
                    source, storages[i], found);
  }
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
    check_records(module, content, path.string());
    module.eval();
    module.to(options.device, options.dtype);
    for (auto parameter : module.parameters()) parameter.set_requires_grad(false);
    return module;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw bad_input("cannot load {}: {}", path.string(),
                    explain_load_failure(error.what(), content));
  }
}

std::string describe_result(const torch::IValue& result) {
  if (!result.isTensor()) return "no tensor";
  const torch::Tensor tensor = result.toTensor();
  return fmt::format("a {} tensor of {} numbers and shape {}",
                     tensor.layout() == torch::kStrided ? "dense" : "sparse",
                     torch::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), "x"));
}

bool is_usable(const torch::IValue& result) {
  return result.isTensor() && result.toTensor().layout() == torch::kStrided &&
         result.toTensor().is_floating_point();
}

}  // namespace

// The interpreter prints a traceback; what went wrong is its last line that says something. The
// frames of LibTorch's own stack, which may follow, say nothing to a user.
std::string last_error_line(const std::string& traceback) {
  std::string last;
  for (const auto& line : split(traceback, '\n')) {
    if (contains(line, "Exception raised from") || line.rfind("frame #", 0) == 0) break;
    if (last.empty() || contains(line, "Error") || contains(line, "Expected")) last = line;
  }
  const std::string interpreters = "RuntimeError: ";
  if (last.rfind(interpreters, 0) == 0) last = last.substr(interpreters.size());
  last.erase(last.find_last_not_of(' ') + 1);
  // "AssertionError: ", with nothing behind it.
  return last.empty() || last.back() == ':' ? "it gave no reason" : last;
}

ScriptModule::ScriptModule(const std::filesystem::path& path, const std::string& expected_sha256,
                           const TorchScriptOptions& options)
    : path_(path.string()),
      options_(options),
      module_(load_module(path, expected_sha256, options)),
      most_at_once_(options.one_by_one ? 1 : std::numeric_limits<int64_t>::max() / 2) {
  if (!options.graphs || !options.device.is_cuda()) return;
  graphs_ = std::make_unique<CallGraphs>(cuda_graph_recorder(), [this](const std::string& why) {
    if (!options_.on_note) return;
    options_.on_note(
        fmt::format("{} cannot be run as a CUDA graph ({}): its kernels are launched "
                    "one by one, which is slower for small batches",
                    path_, why));
  });
}

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
      parts.push_back(result_for(piece, manner, accept));
      begin = end;
    } catch (const std::exception& error) {
      // With gradients it is the graph that does not fit, and pieces of it would be kept as well.
      if (!is_out_of_memory(error) || torch::GradMode::is_enabled()) throw;
      if (graphs_ && graphs_->give_up("their memory is needed for larger batches")) continue;
      shrink(end - begin);
    }
  }
  return parts.size() == 1 ? parts.front() : torch::cat(parts);
}

torch::Tensor ScriptModule::result_for(const std::vector<torch::Tensor>& piece,
                                       const std::string& manner, const Accept& accept) const {
  const auto call = [&](const std::vector<torch::Tensor>& given) {
    return called_on(given, manner, accept);
  };
  if (!graphs_ || torch::GradMode::is_enabled()) return call(copies_of(piece));
  return graphs_->call(piece, call);
}

torch::Tensor ScriptModule::called_on(const std::vector<torch::Tensor>& piece,
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
  if (!is_input && !output.requires_grad()) returns_buffer_ = true;
  return output.clone();
}

void ScriptModule::check_arguments(size_t count, const std::string& given) const {
  const auto method = module_.find_method("forward");
  if (!method) throw bad_input("{} has no method forward to call", path_);
  const auto& arguments = method->function().getSchema().arguments();
  std::vector<std::string> names;
  size_t needed = 0;
  for (size_t i = 1; i < arguments.size(); ++i) {  // the first is the module itself
    names.push_back(arguments[i].name());
    if (!arguments[i].default_value()) ++needed;
  }
  if (count >= needed && count <= names.size()) return;
  throw bad_input(
      "forward of {} takes {} arguments ({}), the card gives it {} ({}); list its conditions in "
      "the "
      "card, in their order",
      path_, names.size(), fmt::join(names, ", "), count, given);
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
  require_usable(result);
  if (result.toTensor().sizes() != torch::IntArrayRef(expected)) {
    throw bad_input(
        "{} returned {} for an input of shape {}, the card says {}; its sample_shape or the model "
        "is wrong",
        path_, describe_result(result), fmt::join(input.sizes(), "x"), fmt::join(expected, "x"));
  }
  return result.toTensor();
}

void ScriptModule::require_usable(const torch::IValue& result) const {
  if (is_usable(result)) return;
  throw bad_input("{} returned {}, it must return a dense tensor of floating-point numbers", path_,
                  describe_result(result));
}

torch::Tensor ScriptModule::with_batch(const torch::IValue& result,
                                       const torch::Tensor& input) const {
  require_usable(result);
  if (result.toTensor().dim() == 0 || result.toTensor().size(0) != input.size(0)) {
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
