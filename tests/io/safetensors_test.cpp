#include "bespoke/io/safetensors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"

namespace bespoke {

using namespace detail;
namespace {

namespace fs = std::filesystem;

class Safetensors : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove(path_); }
  fs::path path_ =
      fs::temp_directory_path() /
      (std::string("bespoke_") + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
       ".safetensors");

  void write_raw(const std::string& header, const std::string& data) {
    uint64_t length = header.size();
    std::string content(8, '\0');
    std::memcpy(content.data(), &length, 8);
    write_file_atomically(path_, content + header + data);
  }
};

TEST_F(Safetensors, RoundTripsEveryType) {
  TensorFile file;
  for (const auto type : {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16,
                          torch::kLong, torch::kInt, torch::kByte, torch::kBool}) {
    file.tensors[std::string(torch::toString(type))] = torch::arange(6).reshape({2, 3}).to(type);
  }
  file.tensors["scalar"] = torch::tensor(1.5);
  file.tensors["empty"] = torch::zeros({0, 4});
  file.metadata = {{"solver", "euler"}};
  write_safetensors(path_, file);
  const TensorFile copy = read_safetensors(path_);
  ASSERT_EQ(copy.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    EXPECT_EQ(copy.tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(copy.tensors.at(name), tensor)) << name;
  }
  EXPECT_EQ(copy.metadata, file.metadata);
}

TEST_F(Safetensors, FollowsTheFormatByteForByte) {
  // Written by hand from the format's description: length, header, data.
  const float values[] = {1.5f, -2.f};
  write_raw(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
            std::string(reinterpret_cast<const char*>(values), 8));
  const auto x = read_safetensors(path_).tensors.at("x");
  EXPECT_EQ(x[0].item<float>(), 1.5f);
  EXPECT_EQ(x[1].item<float>(), -2.f);
}

TEST_F(Safetensors, RefusesWhatDoesNotFit) {
  const auto refused = [&] {
    try {
      read_safetensors(path_);
      return false;
    } catch (const Error& error) {
      return error.exit_code() == 3;
    }
  };
  write_file_atomically(path_, "abc");
  EXPECT_TRUE(refused());
  write_file_atomically(path_, std::string(8, '\xff'));
  EXPECT_TRUE(refused());
  write_raw("not json", "");
  EXPECT_TRUE(refused());
  for (const auto& entry :
       {R"({"dtype":"F32","shape":[2],"data_offsets":[0,16]})",
        R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})",
        R"({"dtype":"F9","shape":[2],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})",
        R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})",
        R"({"dtype":"F32","shape":[2]})"}) {
    write_raw(std::string("{\"x\":") + entry + "}", std::string(8, '\0'));
    EXPECT_TRUE(refused()) << entry;
  }
}

}  // namespace
}  // namespace bespoke
