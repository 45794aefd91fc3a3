#include "bespoke/io/zip.h"

#include <gtest/gtest.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "hex.h"
#include "refusal.h"
#include "temporary_folder.h"
#include "zip_bytes.h"

namespace bespoke {

using namespace detail;
namespace {

using testing::zip_bytes;

class Zip : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      open(zip_bytes({{"a", "b"}}));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::failed) << error.what();
      GTEST_SKIP() << error.what();
    }
  }

  ZipArchive open(const std::string& bytes) const {
    write_file_atomically(path_, bytes);
    return ZipArchive(path_);
  }

  // What opening it and reading its first file is refused with.
  std::string refusal(const std::string& bytes) const {
    return testing::refusal([&] { open(bytes).read(0); });
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "x.zip";
};

const testing::ZipEntry& deflated() {
  static const testing::ZipEntry entry = {"forty", std::string(40, 'a'), 8,
                                          testing::from_hex("4b4c240e0000")};
  return entry;
}

TEST_F(Zip, ReadsFilesAndLeavesFoldersOut) {
  const ZipArchive archive =
      open(zip_bytes({{"b/", ""}, {"b/x", std::string("1\0002", 3)}, {"empty", ""}, deflated()}));
  EXPECT_EQ(archive.names(), (std::vector<std::string>{"b/x", "empty", "forty"}));
  EXPECT_EQ(archive.read(0), std::string("1\0002", 3));
  EXPECT_EQ(archive.read(1), "");
  EXPECT_EQ(archive.read(2), std::string(40, 'a'));
  EXPECT_EQ(archive.read(0), archive.read(0));
  EXPECT_EQ(archive.describe(0), path_.string() + ":b/x");
}

TEST_F(Zip, ReadsWhatIsLongerThanOneBlock) {
  const std::string content(2'500'000, 'x');
  EXPECT_EQ(open(zip_bytes({{"long", content}})).read(0), content);
}

TEST_F(Zip, RefusesAFileThatIsBroken) {
  std::string wrong = zip_bytes({{"a/b", "content"}});
  wrong[wrong.find("content")] = 'C';
  EXPECT_EQ(refusal(wrong), path_.string() +
                                ":a/b: cannot be unpacked (CRC error); fetch or make the archive "
                                "again");
  testing::ZipEntry short_of_data = deflated();
  short_of_data.packed.resize(3);
  EXPECT_NE(refusal(zip_bytes({short_of_data})).find("forty: cannot be unpacked"),
            std::string::npos);
  testing::ZipEntry longer = deflated();
  longer.content.resize(39);
  EXPECT_NE(refusal(zip_bytes({longer})), "");
  EXPECT_NE(refusal(zip_bytes({{"a", "secret", 0, "", 1}})).find("assword"), std::string::npos);
}

TEST_F(Zip, RefusesWhatIsNoArchive) {
  EXPECT_NE(refusal("hello, this is text").find("not a zip archive"), std::string::npos);
  const std::string whole = zip_bytes({{"a", "content"}});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(open(whole.substr(0, size)).read(0), std::exception) << size;
  }
  EXPECT_NE(testing::refusal([&] { ZipArchive(folder_.path() / "no.zip"); }).find("no such file"),
            std::string::npos);
}

}  // namespace
}  // namespace bespoke
