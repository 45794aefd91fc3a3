#include "bespoke/io/tensor_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/sha256.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

using nlohmann::json;

class TensorCacheTest : public ::testing::Test {
 protected:
  std::filesystem::path file_of(const json& key) const {
    return folder_ / (sha256(key.dump()) + ".safetensors");
  }

  testing::TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path() / "a/b";
  TensorCache cache_{folder_};
  const json key_ = {{"model", "m"}, {"tolerance", 1e-6}};
  const TensorCache::Tensors tensors_ = {{"x", torch::arange(12, torch::kDouble).reshape({3, 4})},
                                         {"n", torch::arange(3)}};
};

TEST_F(TensorCacheTest, FindsWhatWasKeptUnderItsKeyOnly) {
  EXPECT_FALSE(cache_.find(key_));
  cache_.keep(key_, tensors_);
  const auto found = TensorCache(folder_).find(key_);
  ASSERT_TRUE(found);
  EXPECT_TRUE(torch::equal(found->at("x"), tensors_.at("x")));
  EXPECT_TRUE(torch::equal(found->at("n"), tensors_.at("n")));
  json other = key_;
  other["tolerance"] = 1e-7;
  EXPECT_FALSE(cache_.find(other));
  cache_.keep(key_, {{"x", torch::zeros({1})}});
  EXPECT_EQ(cache_.find(key_)->size(), 1u);
}

TEST_F(TensorCacheTest, DoesNotTrustBrokenAlteredOrForeignFiles) {
  cache_.keep(key_, tensors_);
  const std::string good = read_file(file_of(key_));
  std::string altered = good;
  altered[altered.size() - 3] ^= 1;
  for (const std::string& content :
       {std::string(), std::string("nonsense"), good.substr(0, good.size() - 1), altered}) {
    write_file_atomically(file_of(key_), content);
    EXPECT_FALSE(cache_.find(key_));
  }
  const json other = {{"model", "another"}};
  cache_.keep(other, tensors_);
  write_file_atomically(file_of(key_), read_file(file_of(other)));
  EXPECT_FALSE(cache_.find(key_));
  write_safetensors(file_of(key_), {tensors_, {}});
  EXPECT_FALSE(cache_.find(key_));
  write_file_atomically(file_of(key_), good);
  EXPECT_TRUE(cache_.find(key_));
}

// What waits for a reader, or refuses, keeps nothing, and nothing waits.
TEST_F(TensorCacheTest, LeavesAloneWhatIsNoFile) {
  ASSERT_EQ(mkfifo(file_of(key_).c_str(), 0600), 0);
  cache_.keep(key_, tensors_);
  EXPECT_TRUE(std::filesystem::is_fifo(file_of(key_)));
  std::filesystem::remove(file_of(key_));
  std::filesystem::create_directory(file_of(key_));
  EXPECT_NO_THROW(cache_.keep(key_, tensors_));
}

TEST_F(TensorCacheTest, WithoutAFolderKeepsNothing) {
  const TensorCache off;
  off.keep(key_, tensors_);
  EXPECT_FALSE(off.find(key_));
  write_file_atomically(temporary_.path() / "file", "");
  EXPECT_THROW(TensorCache(temporary_.path() / "file"), Error);
}

}  // namespace
}  // namespace bespoke
