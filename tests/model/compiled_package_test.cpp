// What decides whether a compiled package may run, on packages without code.

#include "bespoke/model/compiled_package.h"

#include <ATen/Context.h>
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bespoke/base/file.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

using nlohmann::json;
using testing::refusal;

json metadata() {
  return {{"AOTI_DEVICE_KEY", "cpu"},
          {"bespoke_dtype", "fp32"},
          {"bespoke_arguments", "x float32 3x32x32,time float32,y int64"},
          {"bespoke_most_batch", "1024"},
          {"bespoke_parameters", "1234"}};
}

// An archive as PyTorch writes packages.
std::string archive(const std::string& record, const std::string& text) {
  std::string bytes;
  const std::function<size_t(const void*, size_t)> append = [&](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  };
  caffe2::serialize::PyTorchStreamWriter writer(append);
  writer.writeRecord("archive_format", "pt2", 3);
  writer.writeRecord(record, text.data(), text.size());
  writer.writeEndOfFile();
  return bytes;
}

std::string package(const json& document) {
  return archive("data/aotinductor/model/c0de.wrapper_metadata.json", document.dump());
}

void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(CompiledPackage, SaysWhatItWasCompiledFor) {
  const PackageFacts facts = read_package_facts(package(metadata()), "model.pt2");
  EXPECT_EQ(facts.device, "cpu");
  EXPECT_EQ(facts.precision, "fp32");
  ASSERT_EQ(facts.arguments.size(), 3u);
  EXPECT_EQ(facts.arguments[0].name, "x");
  EXPECT_EQ(facts.arguments[0].type, torch::kFloat);
  EXPECT_EQ(facts.arguments[0].shape, (std::vector<int64_t>{3, 32, 32}));
  EXPECT_EQ(facts.arguments[2].name, "y");
  EXPECT_EQ(facts.arguments[2].type, torch::kLong);
  EXPECT_TRUE(facts.arguments[2].shape.empty());
  EXPECT_EQ(facts.most_batch, 1024);
  EXPECT_EQ(facts.parameters, 1234);
}

TEST(CompiledPackage, IsRefusedWhereItDoesNotSay) {
  const auto refused = [](const std::string& content) {
    return refusal([&] { read_package_facts(content, "model.pt2"); });
  };
  for (const char* key : {"AOTI_DEVICE_KEY", "bespoke_dtype", "bespoke_arguments",
                          "bespoke_most_batch", "bespoke_parameters"}) {
    json document = metadata();
    document.erase(key);
    expect_part(refused(package(document)), std::string("model.pt2 does not say \"") + key + "\"");
  }
  // Deeper than any JSON that is meant.
  std::string deep = metadata().dump();
  deep.insert(1, "\"deep\": " + std::string(1000, '[') + std::string(1000, ']') + ", ");
  expect_part(refused(archive("data/aotinductor/model/c0de.wrapper_metadata.json", deep)),
              "is no AOTInductor package");
  json document = metadata();
  document["bespoke_most_batch"] = "many";
  expect_part(refused(package(document)), "bespoke_most_batch");
  document["bespoke_most_batch"] = "0";
  expect_part(refused(package(document)), "bespoke_most_batch must be at least 1");
  for (const char* odd : {"x", "x float8 3", "x float32 3xmany", "x float32 3 4", "x float32,"}) {
    document = metadata();
    document["bespoke_arguments"] = odd;
    EXPECT_NE(refused(package(document)), "") << odd;
  }
  const std::string whole = package(metadata());
  for (const std::string& content :
       {std::string(), std::string("no archive"), whole.substr(0, whole.size() / 2),
        archive("data/aotinductor/model/c0de.wrapper_metadata.json", "{"),
        archive("data/weights/0", metadata().dump())}) {
    expect_part(refused(content), "model.pt2 is no AOTInductor package, or a damaged one");
  }
}

TEST(CompiledPackage, RunsOnlyAsItWasCompiled) {
  PackageFacts facts;
  facts.device = "cpu";
  facts.precision = "fp32";
  const auto refused = [&](torch::Device device, torch::ScalarType dtype) {
    return refusal([&] { check_package(facts, {device, dtype}, "model.pt2"); });
  };
  at::globalContext().setAllowTF32CuBLAS(false);
  EXPECT_EQ(refused(torch::kCPU, torch::kFloat), "");
  expect_part(
      refused(torch::kCPU, torch::kBFloat16),
      "model.pt2 was compiled for fp32 on cpu and cannot run in bf16 on cpu; run it in fp32 "
      "on cpu, or compile the model again with bespoke-export --dtype bf16 --device cpu");
  expect_part(refused(torch::kCPU, torch::kHalf), "cannot run in fp16 on cpu");
  expect_part(refused(torch::kCPU, torch::kDouble), "cannot run in fp64 on cpu");
  expect_part(refused(torch::kCUDA, torch::kFloat), "cannot run in fp32 on cuda");
  at::globalContext().setAllowTF32CuBLAS(true);
  expect_part(refused(torch::kCPU, torch::kFloat), "cannot run in tf32 on cpu");
  facts.precision = "tf32";
  EXPECT_EQ(refused(torch::kCPU, torch::kFloat), "");
  at::globalContext().setAllowTF32CuBLAS(false);
}

// Its code would read other numbers, or past their end.
TEST(CompiledPackage, RunsOnlyOnWhatItsCodeReads) {
  const PackageFacts facts = read_package_facts(package(metadata()), "model.pt2");
  const auto refused = [&](std::vector<torch::Tensor> arguments) {
    return refusal([&] { check_arguments(facts, arguments); });
  };
  const auto x = torch::zeros({2, 3, 32, 32}), t = torch::zeros({2});
  const auto y = torch::zeros({2}, torch::kLong);
  EXPECT_EQ(refused({x, t, y}), "");
  EXPECT_EQ(refused({torch::zeros({2, 3, 64, 64}), t, y}),
            "it was compiled for x of type float32 and shape [2x3x32x32] and batches up to 1024, "
            "found x of type float32 and shape [2x3x64x64]");
  expect_part(refused({x.to(torch::kDouble), t, y}), "found x of type float64");
  expect_part(refused({x, t, y.to(torch::kInt)}), "found y of type another type");
  expect_part(refused({x, torch::zeros({3}), y}), "found time of type float32 and shape [3]");
  expect_part(refused({torch::zeros({1025, 3, 32, 32}), t, y}), "batches up to 1024");
  expect_part(refused({x, t}), "it was compiled for 3 arguments, found 2");
}

class PackageFile : public ::testing::Test {
 protected:
  void SetUp() override { write_file_atomically(path_, package(metadata())); }

  std::string refused(const PackageOpener& opener, const std::string& sha256 = "") const {
    return refusal([&] { load_package(path_, sha256, {}, opener); });
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.pt2";
};

TEST_F(PackageFile, IsOpenedWithItsFacts) {
  int64_t parameters = 0;
  load_package(path_, "", {},
               [&](const auto& path, const PackageFacts& facts, torch::Device device) {
                 EXPECT_EQ(path, path_.string());
                 EXPECT_TRUE(device.is_cpu());
                 parameters = facts.parameters;
                 return nullptr;
               });
  EXPECT_EQ(parameters, 1234);
}

TEST_F(PackageFile, IsRefusedInOneSentence) {
  expect_part(refused(nullptr), "model.pt2 is compiled, which needs LibTorch 2.9 or later");
  const PackageOpener failing = [](const auto&, const auto&,
                                   auto) -> std::unique_ptr<NetworkProgram> {
    throw std::runtime_error("no such library\nframe #0: main");
  };
  EXPECT_EQ(refused(failing), "cannot load " + path_.string() + ": no such library");
  expect_part(refused(failing, std::string(64, '0')), "is not the file the card was written for");
}

}  // namespace
}  // namespace bespoke
