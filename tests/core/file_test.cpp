#include "bespoke/core/file.h"

#include <gtest/gtest.h>

#include "bespoke/core/error.h"

namespace bespoke {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ =
      fs::temp_directory_path() /
      ("bespoke_file_test_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
       ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(FileTest, WritesAndReadsWhole) {
  const std::string content("a\0b\n", 4);
  write_file_atomically(folder_ / "x", content);
  EXPECT_EQ(read_file(folder_ / "x"), content);
  write_file_atomically(folder_ / "x", "new");
  EXPECT_EQ(read_file(folder_ / "x"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1)
      << "a temporary was left behind";
}

TEST_F(FileTest, AFailedWriteLeavesTheOldContent) {
  // The target is a folder that is not empty: the rename must fail.
  fs::create_directories(folder_ / "taken" / "inside");
  EXPECT_THROW(write_file_atomically(folder_ / "taken", "new"), Error);
  EXPECT_TRUE(fs::is_directory(folder_ / "taken" / "inside"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  EXPECT_THROW(write_file_atomically(folder_ / "no" / "such" / "folder", "x"), Error);
}

TEST_F(FileTest, SaysWhyItCannotRead) {
  try {
    read_file(folder_ / "absent");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos);
  }
  EXPECT_THROW(read_file(folder_), Error);
}

}  // namespace
}  // namespace bespoke
