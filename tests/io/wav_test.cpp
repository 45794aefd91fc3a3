#include "bespoke/io/wav.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

std::string number(uint32_t value, int bytes) {
  std::string result;
  for (int i = 0; i < bytes; ++i) result += static_cast<char>(value >> (8 * i));
  return result;
}

// A WAV file as the format's description has it; encoding 1 is whole numbers, 3 is floats.
std::string wav(int encoding, uint32_t channels, uint32_t rate, uint32_t bits,
                const std::string& data) {
  const uint32_t frame = channels * bits / 8;
  const auto size = static_cast<uint32_t>(data.size());
  return "RIFF" + number(36 + size, 4) + "WAVEfmt " + number(16, 4) +
         number(static_cast<uint32_t>(encoding), 2) + number(channels, 2) + number(rate, 4) +
         number(rate * frame, 4) + number(frame, 2) + number(bits, 2) + "data" + number(size, 4) +
         data;
}

class Wav : public ::testing::Test {
 protected:
  WavFile read_bytes(const std::string& bytes) {
    write_file_atomically(path_, bytes);
    return read_wav(path_);
  }

  std::string refusal(const std::string& bytes) {
    return testing::refusal([&] { read_bytes(bytes); });
  }

  // Whether this build takes libsndfile, for other encodings than 16-bit PCM.
  bool reads_all() {
    const std::string silence(1, '\x80');
    return refusal(wav(1, 1, 8000, 8, silence)).find("libsndfile1-dev") == std::string::npos;
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "x.wav";
};

// Two channels of three frames: 1, -1, 0 and 0.5, -0.5, 2^-15.
const std::string& stereo_data() {
  static const std::string data("\xff\x7f\x00\x40\x00\x80\x00\xc0\x00\x00\x01\x00", 12);
  return data;
}

TEST_F(Wav, ReadsAHandMadeFile) {
  const WavFile file = read_bytes(wav(1, 2, 44100, 16, stereo_data()));
  EXPECT_EQ(file.sample_rate, 44100);
  const auto expected =
      torch::tensor({{32767.f, -32768.f, 0.f}, {16384.f, -16384.f, 1.f}}) / 32768.f;
  EXPECT_TRUE(torch::equal(file.audio, expected)) << file.audio;
}

TEST_F(Wav, WritesThoseBytes) {
  write_wav(path_, torch::tensor({{1.0, -1.0, 0.0}, {0.5, -0.5, 1.0 / 32768}}), 44100);
  EXPECT_EQ(read_file(path_), wav(1, 2, 44100, 16, stereo_data()));
}

TEST_F(Wav, ClipsAndRounds) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto x = torch::tensor({7.0, -7.0, nan, infinity, -infinity, 1.4 / 32768, -1.6 / 32768});
  write_wav(path_, x.to(torch::kDouble), 8000);
  const auto expected = torch::tensor({32767.f, -32768.f, 0.f, 32767.f, -32768.f, 1.f, -2.f});
  const WavFile file = read_wav(path_);
  EXPECT_EQ(file.sample_rate, 8000);
  EXPECT_TRUE(torch::equal(file.audio * 32768, expected.reshape({1, 7}))) << file.audio * 32768;
}

TEST_F(Wav, RoundTripsEveryValue) {
  const auto every = torch::arange(-32768, 32768).repeat({5}).to(torch::kFloat) / 32768;
  for (const int64_t channels : {1, 2, 5}) {
    const auto audio = every.reshape({-1, channels}).transpose(0, 1);
    write_wav(path_, audio, 48000);
    EXPECT_TRUE(torch::equal(read_wav(path_).audio, audio)) << channels;
  }
  write_wav(path_, torch::zeros({2, 0}), 48000);
  EXPECT_EQ(read_wav(path_).audio.sizes().vec(), (std::vector<int64_t>{2, 0}));
}

TEST_F(Wav, PassesOverWhatIsNoSound) {
  std::string bytes = wav(1, 2, 44100, 16, stereo_data());
  const WavFile plain = read_bytes(bytes);
  bytes.insert(36, "LIST" + number(3, 4) + std::string("abc\0", 4));  // odd sizes are padded
  bytes += "cue " + number(2, 4) + "xy";
  bytes.replace(4, 4, number(static_cast<uint32_t>(bytes.size()) - 8, 4));
  EXPECT_TRUE(torch::equal(read_bytes(bytes).audio, plain.audio));
}

TEST_F(Wav, ReadsOtherEncodings) {
  if (!reads_all()) GTEST_SKIP() << "built without libsndfile";
  const std::string floats("\x00\x00\xc0\x3f\x00\x00\x00\xbf", 8);  // 1.5, -0.5
  EXPECT_TRUE(torch::equal(read_bytes(wav(3, 1, 8000, 32, floats)).audio,
                           torch::tensor({1.5f, -0.5f}).reshape({1, 2})));
  const std::string wide("\x00\x00\x40\x00\x00\x80", 6);  // 24 bits: 0.5, -1
  EXPECT_TRUE(torch::equal(read_bytes(wav(1, 1, 8000, 24, wide)).audio,
                           torch::tensor({0.5f, -1.f}).reshape({1, 2})));
}

// libsndfile would go through two gigabytes that are not there.
TEST_F(Wav, LeavesOutAChunkThatClaimsMoreThanThereIs) {
  const std::string overlong = std::string("LIST\x03\x00\x00\x7b", 8) + "INFOabcd";
  if (reads_all()) {
    const std::string whole = wav(1, 1, 8000, 24, std::string("\x00\x00\x40\x00\x00\xc0", 6));
    EXPECT_TRUE(torch::equal(read_bytes(whole + overlong).audio, read_bytes(whole).audio));
    EXPECT_EQ(read_bytes(whole + overlong).audio.size(1), 2);
  }
  const std::string before = wav(1, 1, 8000, 16, "").substr(0, 36) + overlong;
  EXPECT_NE(refusal("RIFF" + std::string(4, '\0') + before.substr(8)), "");
}

TEST_F(Wav, RefusesWhatIsBrokenOrCutOff) {
  const std::string whole = wav(1, 2, 44100, 16, stereo_data());
  EXPECT_EQ(refusal(whole), "");
  for (size_t size = 0; size + 1 < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  }
  EXPECT_NE(refusal(whole.substr(0, 50)).find("is cut off, 50 of 56 bytes"), std::string::npos);
  EXPECT_NE(refusal("hello, this is text and not sound").find("not a sound file"),
            std::string::npos);
  EXPECT_NE(refusal(wav(1, 0, 44100, 16, stereo_data())), "");
  const std::string au = ".snd" + std::string("\0\0\0\x18\0\0\0\4\0\0\0\3\0\0\x1f\x40\0\0\0\1", 20);
  EXPECT_NE(refusal(au + "abcd").find(reads_all() ? "not WAV" : "not a sound file"),
            std::string::npos)
      << refusal(au + "abcd");
}

TEST_F(Wav, ReadsWhatAPipeLeft) {
  std::string bytes = wav(1, 2, 44100, 16, stereo_data());
  for (const size_t place : {4, 40}) bytes.replace(place, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(read_bytes(bytes).audio.size(1), 3);
  bytes.replace(40, 4, number(0, 4));
  EXPECT_EQ(read_bytes(bytes).audio.size(1), 3);
}

TEST_F(Wav, RefusesWhatItCannotWrite) {
  for (const auto& audio : {torch::zeros({4}, torch::kInt), torch::zeros({}), torch::zeros({0, 4}),
                            torch::zeros({1, 1, 4}), torch::zeros({1025, 1})}) {
    EXPECT_THROW(write_wav(path_, audio, 8000), Error) << audio.sizes();
  }
  EXPECT_THROW(write_wav(path_, torch::zeros({4}), 0), Error);
}

}  // namespace
}  // namespace bespoke
