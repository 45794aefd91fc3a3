#include "bespoke/model/compiled_package.h"

#include <ATen/Context.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"
#include "libtorch_message.h"
#include "weights_file.h"

namespace bespoke::detail {

namespace {

using nlohmann::json;

constexpr char kMakeOne[] = "write it with bespoke-export --format aotinductor";

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The metadata of the package's only model, as text; empty where there is none.
std::string metadata_text(const std::string& content) {
  std::istringstream stream(content);
  caffe2::serialize::PyTorchStreamReader reader(&stream);
  for (const auto& name : reader.getAllRecords()) {
    if (name.rfind("data/aotinductor/model/", 0) != 0 || !ends_with(name, "_metadata.json")) {
      continue;
    }
    const auto record = reader.getRecord(name);
    return {static_cast<const char*>(std::get<0>(record).get()), std::get<1>(record)};
  }
  return "";
}

json read_metadata(const std::string& content, const std::string& source) {
  std::string text;
  try {
    text = metadata_text(content);
  } catch (const std::exception&) {  // LibTorch's, of a file that is no archive or a damaged one
  }
  json metadata = try_parse_json(text);
  if (metadata.is_object()) return metadata;
  throw bad_input("{} is no AOTInductor package, or a damaged one; {}", source, kMakeOne);
}

std::string fact(const json& metadata, const char* key, const std::string& source) {
  const auto entry = metadata.find(key);
  if (entry != metadata.end() && entry->is_string()) return entry->get<std::string>();
  throw bad_input("{} does not say \"{}\" in its metadata; {}", source, key, kMakeOne);
}

int64_t whole_fact(const json& metadata, const char* key, int64_t least,
                   const std::string& source) {
  const std::string where = fmt::format("{}: {}", source, key);
  const std::string text = fact(metadata, key, source);
  const int64_t value = read_checked(source, [&] { return parse_integer(text, where); });
  if (value < least) throw bad_input("{} must be at least {}, found {}", where, least, value);
  return value;
}

// The types under PyTorch's names.
constexpr std::pair<const char*, torch::ScalarType> kTypes[] = {{"float32", torch::kFloat},
                                                                {"float64", torch::kDouble},
                                                                {"bfloat16", torch::kBFloat16},
                                                                {"float16", torch::kHalf},
                                                                {"int64", torch::kLong}};

const char* type_name(torch::ScalarType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return name;
  }
  return "another type";
}

// "x float32 3x32x32": a name, a type and a shape without the batch, which may be missing.
PackageArgument argument_of(const std::string& text, const std::string& source) {
  const std::vector<std::string> words = split(text, ' ');
  for (const auto& [name, type] : kTypes) {
    if (words.size() < 2 || words.size() > 3 || words[1] != name) continue;
    PackageArgument argument{words[0], type, {}};
    for (const std::string& size :
         words.size() > 2 ? split(words[2], 'x') : std::vector<std::string>()) {
      argument.shape.push_back(read_checked(source, [&] { return parse_integer(size, source); }));
    }
    return argument;
  }
  throw bad_input("{}: bespoke_arguments has '{}', which is no argument; {}", source, text,
                  kMakeOne);
}

std::string described(const std::string& name, torch::ScalarType type, torch::IntArrayRef shape) {
  return fmt::format("{} of type {} and shape [{}]", name, type_name(type), fmt::join(shape, "x"));
}

std::string precision_name(torch::ScalarType type) {
  switch (type) {
    case torch::kDouble:
      return "fp64";
    case torch::kBFloat16:
      return "bf16";
    case torch::kHalf:
      return "fp16";
    default:
      return at::globalContext().allowTF32CuBLAS() ? "tf32" : "fp32";
  }
}

}  // namespace

PackageFacts read_package_facts(const std::string& content, const std::string& source) {
  const json metadata = read_metadata(content, source);
  PackageFacts facts;
  facts.device = fact(metadata, "AOTI_DEVICE_KEY", source);
  facts.precision = fact(metadata, "bespoke_dtype", source);
  for (const std::string& text : split(fact(metadata, "bespoke_arguments", source), ',')) {
    facts.arguments.push_back(argument_of(text, source));
  }
  facts.most_batch = whole_fact(metadata, "bespoke_most_batch", 1, source);
  facts.parameters = whole_fact(metadata, "bespoke_parameters", 0, source);
  return facts;
}

void check_package(const PackageFacts& facts, const NetworkOptions& options,
                   const std::string& source) {
  const std::string device = options.device.is_cuda() ? "cuda" : "cpu";
  const std::string precision = precision_name(options.dtype);
  if (facts.device == device && facts.precision == precision) return;
  throw bad_input(
      "{0} was compiled for {1} on {2} and cannot run in {3} on {4}; run it in {1} on {2}, or "
      "compile the model again with bespoke-export --dtype {3} --device {4}",
      source, facts.precision, facts.device, precision, device);
}

void check_arguments(const PackageFacts& facts, const std::vector<torch::Tensor>& arguments) {
  if (arguments.size() != facts.arguments.size()) {
    throw bad_input("it was compiled for {} arguments, found {}", facts.arguments.size(),
                    arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const PackageArgument& taken = facts.arguments[i];
    std::vector<int64_t> shape = {arguments.front().size(0)};
    shape.insert(shape.end(), taken.shape.begin(), taken.shape.end());
    if (shape.front() <= facts.most_batch && arguments[i].scalar_type() == taken.type &&
        arguments[i].sizes() == torch::IntArrayRef(shape)) {
      continue;
    }
    throw bad_input("it was compiled for {} and batches up to {}, found {}",
                    described(taken.name, taken.type, shape), facts.most_batch,
                    described(taken.name, arguments[i].scalar_type(), arguments[i].sizes()));
  }
}

std::unique_ptr<NetworkProgram> load_package(const std::filesystem::path& path,
                                             const std::string& expected_sha256,
                                             const NetworkOptions& options,
                                             const PackageOpener& opener) {
  const std::string source = path.string();
  if (!opener) {
    throw bad_input(
        "{} is compiled, which needs LibTorch 2.9 or later, and this program has {}.{}; build it "
        "with a newer LibTorch, or use the model as TorchScript",
        source, TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR);
  }
  const PackageFacts facts = read_package_facts(read_weights(path, expected_sha256), source);
  check_package(facts, options, source);
  try {
    return opener(source, facts, options.device);
  } catch (const std::exception& error) {
    throw bad_input("cannot load {}: {}", source, last_error_line(error.what()));
  }
}

}  // namespace bespoke::detail
