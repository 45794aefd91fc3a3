#include "bespoke/io/decode_limit.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/io/jpeg.h"
#include "bespoke/io/png.h"
#include "bespoke/io/wav.h"
#include "bespoke/io/zip.h"
#include "hex.h"
#include "jpeg_bytes.h"
#include "temporary_folder.h"
#include "zip_bytes.h"

namespace bespoke {

using namespace detail;
namespace {

class DecodeLimit : public ::testing::Test {
 protected:
  ~DecodeLimit() override { set_decode_limit(usual_); }

  // Read at one limit and refused one byte below it; not asked where a library is missing.
  static void expect_limit(uint64_t bytes, const std::function<void()>& read) {
    set_decode_limit(bytes);
    try {
      read();
    } catch (const Error& error) {
      if (std::string(error.what()).find("built without") != std::string::npos) return;
      FAIL() << error.what();
    }
    set_decode_limit(bytes - 1);
    try {
      read();
      FAIL() << "more than the limit was unpacked";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(std::string(error.what()).find("when unpacked, the limit is"), std::string::npos)
          << error.what();
    }
  }

  testing::TemporaryFolder temporary_;
  uint64_t usual_ = decode_limit();
};

TEST_F(DecodeLimit, HoldsForPictures) {
  const std::string png = encode_png(torch::zeros({3, 20, 30}, torch::kByte), {});
  expect_limit(3 * 20 * 30, [&] { decode_png(png, "x.png"); });
  const std::string jpeg = testing::from_hex(testing::kGreyJpeg);
  set_decode_limit(usual_);
  const auto size = static_cast<uint64_t>(decode_jpeg(jpeg, "x.jpg").numel());
  expect_limit(size, [&] { decode_jpeg(jpeg, "x.jpg"); });
}

TEST_F(DecodeLimit, HoldsForFilesOfAnArchive) {
  const auto path = temporary_.path() / "x.zip";
  write_file_atomically(path, testing::zip_bytes({{"a/b.png", std::string(7000, 'x')}}));
  expect_limit(7000, [&] { ZipArchive(path).read(0); });
}

}  // namespace
}  // namespace bespoke
