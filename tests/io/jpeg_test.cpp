#include "bespoke/io/jpeg.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "hex.h"
#include "jpeg_bytes.h"
#include "refusal.h"

namespace bespoke {
namespace {

class Jpeg : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      decode_jpeg(testing::from_hex(testing::kGreyJpeg), "x.jpg");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::failed) << error.what();
      GTEST_SKIP() << error.what();
    }
  }

  static std::string refusal(const std::string& bytes) {
    return testing::refusal([&] { decode_jpeg(bytes, "x.jpg"); });
  }

  // The colours of the left and the right half, to what little JPEG changes in flat ones.
  static void expect_halves(const char* hex, const std::vector<std::vector<int>>& channels) {
    const torch::Tensor image = decode_jpeg(testing::from_hex(hex), "x.jpg");
    ASSERT_EQ(image.scalar_type(), torch::kByte);
    const auto count = static_cast<int64_t>(channels.size());
    ASSERT_EQ(image.sizes().vec(), (std::vector<int64_t>{count, 8, 16}));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t half = 0; half < 2; ++half) {
        const auto flat = image[i].narrow(1, 8 * half, 8).to(torch::kInt);
        const int expected = channels[static_cast<size_t>(i)][static_cast<size_t>(half)];
        EXPECT_LE((flat - expected).abs().max().item<int>(), 2)
            << i << ", " << half << ": " << flat;
      }
    }
  }
};

TEST_F(Jpeg, ReadsEveryKindOfPixel) {
  expect_halves(testing::kColourJpeg, {{200, 10}, {100, 60}, {50, 220}});
  expect_halves(testing::kProgressiveJpeg, {{200, 10}, {100, 60}, {50, 220}});
  expect_halves(testing::kGreyJpeg, {{40, 200}});
  expect_halves(testing::kInkJpeg, {{255, 50}, {128, 100}, {0, 25}});
}

TEST_F(Jpeg, RefusesAFileThatIsCutOffAnywhere) {
  for (const char* hex : {testing::kColourJpeg, testing::kProgressiveJpeg, testing::kGreyJpeg}) {
    const std::string whole = testing::from_hex(hex);
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
    }
  }
}

TEST_F(Jpeg, SurvivesAFileWithAnyByteWrong) {
  const std::string whole = testing::from_hex(testing::kColourJpeg);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string broken = whole;
    broken[i] = static_cast<char>(broken[i] ^ 0x51);
    refusal(broken);  // some bytes only change colours, but none may do harm
  }
}

TEST_F(Jpeg, DoesNotTrustASizeThatTheContentCannotHave) {
  std::string bytes = testing::from_hex(testing::kGreyJpeg);
  const size_t frame = bytes.find("\xff\xc0");
  bytes.replace(frame + 5, 4, "\xf0\x10\xf0\x10");
  EXPECT_NE(refusal(bytes).find("its size does not fit its content"), std::string::npos)
      << refusal(bytes);
}

TEST_F(Jpeg, SaysWhatItFound) {
  EXPECT_EQ(refusal("GIF89a"), "x.jpg: not a JPEG file; convert the image to JPEG or PNG");
  EXPECT_EQ(refusal(testing::from_hex(testing::kColourJpeg).substr(0, 280)),
            "x.jpg: broken JPEG (Premature end of JPEG file); make the file again");
}

}  // namespace
}  // namespace bespoke
