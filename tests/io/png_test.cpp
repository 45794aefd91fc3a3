#include "bespoke/io/png.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "hex.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

using testing::from_hex;
using testing::refusal;

// Files made from the format's description and zlib alone, without libpng.
// 2 x 1 RGB with an Author in Latin-1 (tEXt), a note in UTF-8 (iTXt) and a packed text (zTXt).
constexpr char kColour[] =
    "89504e470d0a1a0a0000000d49484452000000020000000108020000007b40e8dd0000000b74455874417574686f72"
    "004af67267f3e012750000000f695458746e6f74650000000000cf83e2869230023142ac000000117a5458746c6f6e"
    "670000789c4b4c8400000dac0309002fbbad0000000f4944415478da63f8cfd0c0c8c40c00080b018697b950910000"
    "000049454e44ae426082";
// 3 x 1 grey with one bit a pixel.
constexpr char kOneBit[] =
    "89504e470d0a1a0a0000000d4948445200000003000000010100000000339b29190000000a4944415478da63580000"
    "00a200a17105cb410000000049454e44ae426082";
// 2 x 1 grey with 16 bits: 0xffff, 0x8000.
constexpr char kSixteenBit[] =
    "89504e470d0a1a0a0000000d494844520000000200000001100000000081d9fc150000000d4944415478da63f8ffbf"
    "81010007fe027fad8392250000000049454e44ae426082";
// 2 x 1 with a palette, the first pixel transparent.
constexpr char kPalette[] =
    "89504e470d0a1a0a0000000d4948445200000002000000010803000000c3fc8fb800000006504c54450a141e28323c"
    "d51bb4e90000000274524e53ff00e5b7304a0000000b4944415478da63606400000005000242c2449f000000004945"
    "4e44ae426082";
// 3 x 1 RGBA: (100, 0, 255) with alpha 255, 0 and 51.
constexpr char kAlpha[] =
    "89504e470d0a1a0a0000000d49484452000000030000000108060000001be014b4000000124944415478da634861f8"
    "ff1f881980d818002485055c98a3dc4e0000000049454e44ae426082";
// 1 x 1 grey with alpha: 3, 128; over white that is 128.5 and a little.
constexpr char kGreyAlpha[] =
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da63606e00"
    "00008900840a46df200000000049454e44ae426082";

class Png : public ::testing::Test {
 protected:
  PngFile read_bytes(const std::string& bytes) {
    write_file_atomically(path_, bytes);
    return read_png(path_);
  }

  void expect_pixels(const char* hex, const torch::Tensor& expected) {
    const torch::Tensor image = read_bytes(from_hex(hex)).image;
    ASSERT_EQ(image.scalar_type(), torch::kByte);
    EXPECT_TRUE(torch::equal(image, expected.to(torch::kByte))) << image;
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "x.png";
};

torch::Tensor bytes_up_to(at::IntArrayRef shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return torch::arange(count).remainder(251).to(torch::kByte).reshape(shape);
}

TEST_F(Png, ReadsEveryKindOfPixel) {
  expect_pixels(kColour, torch::tensor({255, 1, 0, 2, 128, 3}).reshape({3, 1, 2}));
  expect_pixels(kOneBit, torch::tensor({255, 0, 255}).reshape({1, 1, 3}));
  expect_pixels(kSixteenBit, torch::tensor({255, 128}).reshape({1, 1, 2}));
  expect_pixels(kPalette, torch::tensor({255, 10, 255, 20, 255, 30}).reshape({3, 1, 2}));
}

TEST_F(Png, LaysWhatIsTransparentOverWhite) {
  expect_pixels(kAlpha, torch::tensor({100, 255, 224, 0, 255, 204, 255, 255, 255}).view({3, 1, 3}));
  expect_pixels(kGreyAlpha, torch::tensor({129}).reshape({1, 1, 1}));
}

TEST_F(Png, ReadsEveryKindOfText) {
  const PngText expected = {{"Author", "J\xc3\xb6rg"}, {"note", "σ→0"}, {"long", "aaaaaaaa"}};
  EXPECT_EQ(read_bytes(from_hex(kColour)).text, expected);
}

TEST_F(Png, RoundTripsImagesAndTexts) {
  const PngText text = {{"solver", "euler"}, {"note", "αβ\nγ"}, {"e", ""}};
  for (const int64_t channels : {1, 3}) {
    // Transposed: what is written must not depend on the tensor's strides.
    const torch::Tensor image = bytes_up_to({channels, 40, 33}).transpose(1, 2);
    write_png(path_, image, text);
    const PngFile file = read_png(path_);
    EXPECT_TRUE(torch::equal(file.image, image));
    EXPECT_EQ(file.text, text);
  }
}

TEST_F(Png, WritesTheHeaderAndTextsOfTheFormat) {
  write_png(path_, bytes_up_to({3, 2, 258}), {{"solver", "euler"}, {"note", "σ"}});
  const std::string bytes = read_file(path_);
  EXPECT_EQ(bytes.substr(0, 29), from_hex("89504e470d0a1a0a0000000d49484452000001020000000208020000"
                                          "00"));
  EXPECT_NE(bytes.find(std::string("tEXtsolver\0euler", 16)), std::string::npos);
  EXPECT_NE(bytes.find(std::string("iTXtnote\0\0\0\0\0\xcf\x83", 15)), std::string::npos);
}

TEST_F(Png, RefusesAFileThatIsCutOffAnywhere) {
  const std::string whole = from_hex(kColour);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal([&] { read_bytes(whole.substr(0, size)); }), "") << size;
  }
}

TEST_F(Png, RefusesAFileWithAnyByteWrong) {
  const std::string whole = from_hex(kColour);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string broken = whole;
    broken[i] = static_cast<char>(broken[i] ^ 0x10);
    EXPECT_NE(refusal([&] { read_bytes(broken); }), "") << i;
  }
}

TEST_F(Png, DoesNotTrustASizeThatTheContentCannotHave) {
  // The header of an image of a million pixels a side, its checksum right, and nothing behind it.
  const std::string header = "89504e470d0a1a0a0000000d49484452000f4240000f42400802000000d30faf2a";
  const std::string rest = from_hex(kColour).substr(33);
  EXPECT_NE(refusal([&] {
              read_bytes(from_hex(header) + rest);
            }).find("its size does not fit its content"),
            std::string::npos);
}

TEST_F(Png, SaysWhatItFound) {
  EXPECT_NE(refusal([&] { read_bytes("GIF89a..."); }).find("not a PNG"), std::string::npos);
  const std::string cut = refusal([&] { read_bytes(from_hex(kColour).substr(0, 60)); });
  EXPECT_NE(cut.find("broken PNG (it ends too early)"), std::string::npos) << cut;
  const std::string shape = refusal([&] { write_png(path_, bytes_up_to({4, 2, 2})); });
  EXPECT_NE(shape.find("found Byte of shape [4, 2, 2]"), std::string::npos) << shape;
}

TEST_F(Png, RefusesWhatItCannotWrite) {
  const torch::Tensor image = bytes_up_to({1, 2, 2});
  EXPECT_NE(refusal([&] { write_png(path_, image.to(torch::kFloat)); }), "");
  EXPECT_NE(refusal([&] { write_png(path_, image[0]); }), "");
  EXPECT_NE(refusal([&] { write_png(path_, bytes_up_to({3, 0, 2})); }), "");
  EXPECT_NE(refusal([&] { write_png(path_, bytes_up_to({1, 1, 1000001})); }), "");
  for (const char* key : {"", " a", "a ", "a  b", "a\n", "é"}) {
    EXPECT_NE(refusal([&] { write_png(path_, image, {{key, "x"}}); }), "") << key;
  }
  EXPECT_NE(refusal([&] { write_png(path_, image, {{std::string(80, 'k'), "x"}}); }), "");
  EXPECT_NE(refusal([&] { write_png(path_, image, {{"k", std::string(1, '\0')}}); }), "");
  EXPECT_NE(refusal([&] { write_png(path_, image, {{"k", std::string(5 << 20, 'x')}}); }), "");
  EXPECT_NE(refusal([&] { write_png(path_, image, PngText(501, {"k", "x"})); }), "");
}

TEST_F(Png, ReadsBackTheMostTextItWrites) {
  PngText text(499, {"k", "x"});
  text.emplace_back("long", std::string(4 << 20, 'x'));
  write_png(path_, bytes_up_to({1, 1, 1}), text);
  EXPECT_EQ(read_png(path_).text, text);
}

}  // namespace
}  // namespace bespoke
