#include "script_program.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/script.h>
#include <torch/version.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "weights_file.h"

namespace bespoke::detail {

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
    const size_t size = i < records.size() ? records[i] : 0;
    if (size >= storages[i]) continue;
    throw bad_input("cannot load {}: it is damaged, a weight of {} bytes has {} in the file",
                    source, storages[i], size);
  }
}

torch::jit::Module load_module(const std::filesystem::path& path,
                               const std::string& expected_sha256, const NetworkOptions& options) {
  const std::string content = read_weights(path, expected_sha256);
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

class ScriptProgram : public NetworkProgram {
 public:
  ScriptProgram(torch::jit::Module module, std::string path)
      : module_(std::move(module)), path_(std::move(path)) {}

  torch::IValue run(const std::vector<torch::Tensor>& arguments) override {
    // Running a module is not declared const, though it leaves this one as it was.
    torch::jit::Module module = module_;
    return module.forward({arguments.begin(), arguments.end()});
  }

  NetworkArguments arguments() const override {
    if (!module_.find_method("forward")) {
      throw bad_input("{} has no method forward to call", path_);
    }
    return arguments_of(module_);
  }

  int64_t parameter_count() const override { return bespoke::parameter_count(module_); }

  bool has_gradients() const override { return true; }
  const torch::jit::Module* script() const override { return &module_; }

 private:
  torch::jit::Module module_;
  std::string path_;
};

}  // namespace

std::unique_ptr<NetworkProgram> load_script(const std::filesystem::path& path,
                                            const std::string& expected_sha256,
                                            const NetworkOptions& options) {
  return std::make_unique<ScriptProgram>(load_module(path, expected_sha256, options),
                                         path.string());
}

}  // namespace bespoke::detail

namespace bespoke {

NetworkArguments arguments_of(const torch::jit::Module& module) {
  const auto& declared = module.get_method("forward").function().getSchema().arguments();
  NetworkArguments result;
  for (size_t i = 1; i < declared.size(); ++i) {  // the first is the module itself
    result.names.push_back(declared[i].name());
    if (!declared[i].default_value()) ++result.needed;
  }
  return result;
}

int64_t parameter_count(const torch::jit::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace bespoke
