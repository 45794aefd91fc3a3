#include "bespoke/io/dataset.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/io/png.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/io/wav.h"
#include "bespoke/io/zip.h"
#include "hex.h"
#include "jpeg_bytes.h"
#include "refusal.h"
#include "temporary_folder.h"
#include "zip_bytes.h"

namespace bespoke {

using namespace detail;
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;
using Shape = std::vector<int64_t>;

torch::Tensor flat_image(int64_t value, const Shape& shape) {
  return torch::full(shape, value, torch::kByte);
}

class DatasetTest : public ::testing::Test {
 protected:
  // What work() says if it needs a library that was not there when this was built.
  template <class Work>
  static std::string missing_library(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      return error.kind() == ErrorKind::failed ? error.what() : "";
    }
    return "";
  }

  void SetUp() override {
    const fs::path probe = root_.path() / "probe";
    const std::string missing = missing_library([&] {
      write_png(probe, flat_image(0, {1, 1, 1}));
      write_wav(probe, torch::zeros({1}), 8000);
      write_file_atomically(probe, testing::zip_bytes({{"a", "b"}}));
      ZipArchive archive(probe);
    });
    if (!missing.empty()) GTEST_SKIP() << missing;
  }

  fs::path place(const std::string& path) const {
    make_folders((folder_ / path).parent_path());
    return folder_ / path;
  }

  void image(const std::string& path, int64_t value, const Shape& shape = {3, 4, 4}) const {
    write_png(place(path), flat_image(value, shape));
  }

  void sound(const std::string& path, const torch::Tensor& values, int rate = 8000) const {
    write_wav(place(path), values, rate);
  }

  void file(const std::string& path, const std::string& content) const {
    write_file_atomically(place(path), content);
  }

  Dataset read(const DatasetOptions& options = {}) const {
    return read_dataset({folder_}, options);
  }

  std::string refusal(const DatasetOptions& options = {}) const {
    return testing::refusal([&] { read(options); });
  }

  // One value for each image or sound, its first.
  static Shape firsts(const Dataset& dataset) {
    const auto column = dataset.samples.flatten(1).select(1, 0).to(torch::kLong).contiguous();
    return Shape(column.data_ptr<int64_t>(), column.data_ptr<int64_t>() + column.numel());
  }

  static Shape labels(const Dataset& dataset) {
    return Shape(dataset.labels.data_ptr<int64_t>(),
                 dataset.labels.data_ptr<int64_t>() + dataset.labels.numel());
  }

  testing::TemporaryFolder root_;
  fs::path folder_ = root_.path() / "data";
};

DatasetOptions sized(int64_t size, int64_t channels = 0) {
  DatasetOptions options;
  options.size = size;
  options.channels = channels;
  return options;
}

TEST_F(DatasetTest, FoldersAreClassesAndPathsTheOrder) {
  image("10/b.png", 1);
  image("2/x10.PNG", 2);
  image("2/x9.png", 3);
  image("deep/er/2/a.png", 4);
  const Dataset dataset = read();
  EXPECT_EQ(dataset.classes, (Names{"2", "10"}));
  EXPECT_EQ(firsts(dataset), (Shape{3, 2, 1, 4}));
  EXPECT_EQ(labels(dataset), (Shape{0, 0, 1, 0}));
  EXPECT_EQ(dataset.samples.sizes().vec(), (Shape{4, 3, 4, 4}));
  EXPECT_EQ(dataset.samples.scalar_type(), torch::kByte);
  EXPECT_EQ(dataset.sample_rate, 0);
  EXPECT_EQ(dataset.notes, Names{});
}

TEST_F(DatasetTest, FilesInNoFolderAreOneClass) {
  image("0_a.png", 1);
  image("1_a.png", 2);
  const Dataset dataset = read();
  EXPECT_EQ(dataset.classes, Names{"all"});
  EXPECT_EQ(labels(dataset), (Shape{0, 0}));
}

TEST_F(DatasetTest, SkipsOtherFilesAndSaysSo) {
  image("a/x.png", 1);
  file("a/.hidden.png", "not an image");
  file("__MACOSX/a/x.png", "not an image");
  file("a/Thumbs.db", "not an image");
  EXPECT_EQ(read().notes, Names{});
  file("a/readme.txt", "hello");
  file("labels.csv", "hello");
  const Dataset dataset = read();
  EXPECT_EQ(dataset.samples.size(0), 1);
  EXPECT_EQ(dataset.notes, Names{"2 files are not JPEG, PNG or WAV and skipped, such as '" +
                                 (folder_ / "a/readme.txt").string() + "'"});
}

TEST_F(DatasetTest, TheContentDecidesHowAnImageIsRead) {
  const std::string jpeg = testing::from_hex(testing::kColourJpeg);
  const fs::path png = root_.path() / "x.png";
  write_png(png, flat_image(9, {3, 8, 16}));
  file("a/1.png", jpeg);
  file("a/2.JPEG", read_file(png));
  file("a/3.jpg", jpeg);
  const std::string missing = missing_library([&] { read(); });
  if (!missing.empty()) GTEST_SKIP() << missing;
  const Dataset dataset = read();
  EXPECT_EQ(dataset.samples.sizes().vec(), (Shape{3, 3, 8, 16}));
  EXPECT_TRUE(torch::equal(dataset.samples[0], dataset.samples[2]));
  EXPECT_EQ(firsts(dataset)[1], 9);
}

// 16 x 8 pixels of 0x8000, grey with 16 bits.
constexpr char kDeepPng[] =
    "89504e470d0a1a0a0000000d4948445200000010000000081000000000858dfc08000000104944415478da636860c0"
    "0f194686020022f74001a9b8eb6f0000000049454e44ae426082";

// Printers' inks, 16 bits a colour and a palette are pixels as all others.
TEST_F(DatasetTest, ImagesOfOddKindsStandBesideUsualOnes) {
  file("a/1.jpg", testing::from_hex(testing::kColourJpeg));
  file("a/2.jpg", testing::from_hex(testing::kInkJpeg));
  file("a/3.jpg", testing::from_hex(testing::kGreyJpeg));
  file("a/4.png", testing::from_hex(kDeepPng));
  const std::string missing = missing_library([&] { read(); });
  if (!missing.empty()) GTEST_SKIP() << missing;
  const Dataset dataset = read();
  EXPECT_EQ(dataset.samples.sizes().vec(), (Shape{4, 3, 8, 16}));
  EXPECT_EQ(dataset.samples.scalar_type(), torch::kByte);
  EXPECT_NEAR(dataset.samples[1][1][0][0].item<int>(), 128, 2);
  EXPECT_TRUE(torch::equal(dataset.samples[2][0], dataset.samples[2][2]));
  EXPECT_EQ(dataset.samples[3][0][0][0].item<int>(), 0x80);
}

TEST_F(DatasetTest, AnArchiveIsReadAsAFolderIs) {
  for (int i = 0; i < 12; ++i) {
    image("class" + std::to_string(i % 3) + "/" + std::to_string(i) + ".png", i, {1, 1, 1});
  }
  std::vector<testing::ZipEntry> entries;
  for (const std::string& path : list_files(folder_)) {
    entries.push_back({path, read_file(folder_ / path)});
  }
  entries.push_back({"__MACOSX/class1/._1.png", "resource fork"});
  const fs::path archive = root_.path() / "data.ZIP";
  write_file_atomically(archive, testing::zip_bytes(entries));
  const Dataset unpacked = read();
  const Dataset packed = read_dataset({archive});
  EXPECT_TRUE(torch::equal(packed.samples, unpacked.samples));
  EXPECT_TRUE(torch::equal(packed.labels, unpacked.labels));
  EXPECT_EQ(packed.classes, (Names{"class0", "class1", "class2"}));
}

TEST_F(DatasetTest, TellsItsProgressAndCanBeStoppedThere) {
  image("x.png", 1, {1, 1, 1});
  const std::string png = read_file(folder_ / "x.png");
  std::vector<testing::ZipEntry> entries;
  for (int i = 0; i < 1100; ++i) entries.push_back({std::to_string(i) + ".png", png});
  const fs::path archive = root_.path() / "data.zip";
  write_file_atomically(archive, testing::zip_bytes(entries));
  DatasetOptions options;
  std::vector<double> progress;
  options.on_progress = [&](double done) { progress.push_back(done); };
  EXPECT_EQ(read_dataset({archive}, options).samples.size(0), 1100);
  EXPECT_EQ(progress.size(), 3u);
  EXPECT_EQ(progress.back(), 1);
  struct Stopped {};
  options.on_progress = [](double) { throw Stopped(); };
  EXPECT_THROW(read_dataset({archive}, options), Stopped);
}

TEST_F(DatasetTest, DoesNotDependOnTheNumberOfThreads) {
  for (int i = 0; i < 20; ++i) image("a/" + std::to_string(i) + ".png", i, {3, 5 + i, 9});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Dataset one = read(sized(6));
  at::set_num_threads(3);
  const Dataset three = read(sized(6));
  file("a/5.png", "broken");
  file("a/17.png", "broken");
  for (int i = 0; i < 5; ++i) EXPECT_NE(refusal().find("a/5.png"), std::string::npos);
  at::set_num_threads(before);
  EXPECT_TRUE(torch::equal(one.samples, three.samples));
}

TEST_F(DatasetTest, SourcesAreJoinedByTheNamesOfTheirClasses) {
  image("one/cat/1.png", 1);
  image("one/dog/2.png", 2);
  image("two/ant/3.png", 3);
  image("two/dog/4.png", 4);
  const Dataset dataset = read_dataset({folder_ / "two", folder_ / "one"});
  EXPECT_EQ(dataset.classes, (Names{"ant", "cat", "dog"}));
  EXPECT_EQ(firsts(dataset), (Shape{3, 4, 1, 2}));
  EXPECT_EQ(labels(dataset), (Shape{0, 2, 1, 2}));
}

TEST_F(DatasetTest, TakesTheSizeMostImagesHave) {
  image("1.png", 1, {3, 6, 4});
  image("2.png", 2, {3, 6, 4});
  image("3.png", 3, {3, 9, 9});
  const Dataset dataset = read();
  EXPECT_EQ(dataset.samples.sizes().vec(), (Shape{3, 3, 6, 4}));
  EXPECT_TRUE(torch::equal(dataset.samples[2], flat_image(3, {3, 6, 4})));
  EXPECT_EQ(dataset.notes, Names{"1 of 3 images was resized to 4x6"});
}

TEST_F(DatasetTest, CutsTheMiddleAndAveragesWhenItShrinks) {
  // White ends that the cut removes, and a middle of stripes one pixel wide.
  torch::Tensor wide = torch::full({1, 8, 16}, 255, torch::kByte);
  wide.narrow(2, 4, 8).fill_(0);
  for (int64_t x = 4; x < 12; x += 2) wide.select(2, x).fill_(100);
  write_png(place("x.png"), wide);
  const Dataset dataset = read(sized(2));
  ASSERT_EQ(dataset.samples.sizes().vec(), (Shape{1, 1, 2, 2}));
  // Not 50 exactly: at the edge the filter sees one stripe more than gap.
  EXPECT_LE((dataset.samples.to(torch::kInt) - 50).abs().max().item<int>(), 5) << dataset.samples;
  EXPECT_EQ(dataset.notes, Names{"1 of 1 images was resized to 2x2"});
  EXPECT_EQ(read(sized(32)).samples.sizes().vec(), (Shape{1, 1, 32, 32}));
}

TEST_F(DatasetTest, GreyStaysGreyUnlessThereIsColour) {
  image("1.png", 7, {1, 2, 2});
  EXPECT_EQ(read().samples.size(1), 1);
  EXPECT_EQ(read(sized(0, 3)).samples.size(1), 3);
  auto colour = torch::tensor({255, 0, 0}).to(torch::kByte).view({3, 1, 1}).expand({3, 2, 2});
  write_png(place("2.png"), colour);
  const Dataset dataset = read();
  EXPECT_EQ(dataset.samples.size(1), 3);
  EXPECT_TRUE(torch::equal(dataset.samples[0], flat_image(7, {3, 2, 2})));
  EXPECT_EQ(dataset.notes, Names{"1 of 2 images was grey and made RGB"});
  const Dataset grey = read(sized(0, 1));
  EXPECT_EQ(firsts(grey), (Shape{7, 76}));
  EXPECT_THROW(read(sized(0, 2)), Error);
  EXPECT_THROW(read(sized(-1)), Error);
}

TEST_F(DatasetTest, SoundsHaveTheMedianLength) {
  sound("1.wav", torch::full({2}, 0.5));
  sound("2.wav", torch::full({4}, 0.25));
  sound("3.WAV", torch::full({7}, -0.5));
  const Dataset dataset = read();
  const auto expected =
      torch::tensor({0.5f, 0.5f, 0.f, 0.f, 0.25f, 0.25f, 0.25f, 0.25f, -0.5f, -0.5f, -0.5f, -0.5f});
  EXPECT_TRUE(torch::equal(dataset.samples, expected.view({3, 1, 4}))) << dataset.samples;
  EXPECT_EQ(dataset.sample_rate, 8000);
  EXPECT_EQ(dataset.notes, (Names{"1 of 3 sounds was padded with silence to 4 samples",
                                  "1 of 3 sounds was cut to 4 samples"}));
  EXPECT_EQ(read(sized(9000)).samples.size(2), 9000);
  EXPECT_EQ(read(sized(9000)).notes,
            Names{"3 of 3 sounds were padded with silence to 9,000 samples"});
}

TEST_F(DatasetTest, SoundsHaveAsManyChannelsAsTheMostHave) {
  sound("1.wav", torch::tensor({{0.5, 0.25}}));
  sound("2.wav", torch::tensor({{0.5, 0.25}, {-0.5, 0.75}}));
  const Dataset stereo = read();
  EXPECT_TRUE(torch::equal(stereo.samples[0], torch::tensor({{0.5f, 0.25f}, {0.5f, 0.25f}})));
  EXPECT_EQ(stereo.notes, Names{"1 of 2 sounds was brought to 2 channels"});
  EXPECT_TRUE(torch::equal(read(sized(0, 1)).samples[1], torch::tensor({{0.f, 0.5f}})));
  sound("3.wav", torch::zeros({3, 2}));
  EXPECT_NE(refusal().find("2.wav' has 2 channels where 3 are needed"), std::string::npos);
}

TEST_F(DatasetTest, RefusesWhatIsNoDataset) {
  const auto says = [&](const std::string& words) {
    EXPECT_NE(refusal().find(words), std::string::npos) << refusal();
  };
  says("is neither a folder nor a file");
  make_folders(folder_ / "empty");
  says("no JPEG, PNG or WAV file in '" + folder_.string() + "'");
  image("a.png", 1);
  sound("b.wav", torch::zeros({4}));
  says("a.png' is an image and '" + (folder_ / "b.wav").string() + "' a sound");
  EXPECT_NE(testing::refusal([&] { read_dataset({folder_ / "a.png"}); }).find("is no dataset"),
            std::string::npos);
  EXPECT_NE(testing::refusal([] { read_dataset({}); }), "");
}

TEST_F(DatasetTest, RefusesSoundsThatDoNotGoTogether) {
  sound("a.wav", torch::zeros({4}), 8000);
  sound("b.wav", torch::zeros({4}), 16000);
  EXPECT_EQ(refusal(), "'" + (folder_ / "a.wav").string() + "' has 8000 Hz and '" +
                           (folder_ / "b.wav").string() +
                           "' 16000 Hz; bring all sounds to one rate");
  sound("b.wav", torch::zeros({0}), 8000);
  EXPECT_NE(refusal().find("at least half of the sounds are empty"), std::string::npos);
}

TEST_F(DatasetTest, NamesABrokenFileInsideItsArchive) {
  const fs::path png = root_.path() / "x.png";
  write_png(png, flat_image(9, {3, 8, 16}));
  const std::string whole = read_file(png);
  const fs::path archive = root_.path() / "x.zip";
  write_file_atomically(
      archive, testing::zip_bytes({{"cat/1.png", whole}, {"cat/2.png", whole.substr(0, 50)}}));
  EXPECT_EQ(testing::refusal([&] { read_dataset({archive}); }),
            archive.string() + ":cat/2.png: broken PNG (it ends too early); make the file again");
  write_file_atomically(archive, testing::zip_bytes({{"cat/1.jpg", "text"}}));
  EXPECT_NE(testing::refusal([&] { read_dataset({archive}); }).find("neither JPEG nor PNG"),
            std::string::npos);
}

TEST_F(DatasetTest, ADatasetThatWasKeptReadsBackTheSame) {
  const fs::path kept = root_.path() / "kept.safetensors";
  image("x 2/1.png", 1);
  image("x 10/2.png", 2);
  const Dataset images = read();
  write_dataset(kept, images);
  const Dataset again = read_dataset({kept});
  EXPECT_TRUE(torch::equal(again.samples, images.samples));
  EXPECT_TRUE(torch::equal(again.labels, images.labels));
  EXPECT_EQ(again.classes, images.classes);
  const Dataset both = read_dataset({kept, folder_});
  EXPECT_EQ(firsts(both), (Shape{1, 2, 1, 2}));
  EXPECT_EQ(labels(both), (Shape{0, 1, 0, 1}));

  Dataset sounds;
  sounds.samples = torch::linspace(-1, 1, 24).view({2, 3, 4});
  sounds.labels = torch::tensor({1, 1});
  sounds.classes = {"nobody", "somebody"};
  sounds.sample_rate = 44100;
  write_dataset(kept, sounds);
  const Dataset heard = read_dataset({kept});
  EXPECT_TRUE(torch::equal(heard.samples, sounds.samples));
  EXPECT_EQ(labels(heard), (Shape{1, 1}));
  EXPECT_EQ(heard.classes, sounds.classes);
  EXPECT_EQ(heard.sample_rate, 44100);
}

class DatasetFile : public DatasetTest {
 protected:
  Dataset read_tensors(const TensorFile& tensors) const {
    write_safetensors(path_, tensors);
    return read_dataset({path_});
  }

  void expect_refused(const TensorFile& tensors, const std::string& words) const {
    const std::string message = testing::refusal([&] { read_tensors(tensors); });
    EXPECT_NE(message.find(words), std::string::npos) << message << " lacks " << words;
  }

  fs::path path_ = root_.path() / "x.safetensors";
  TensorFile images_ = {
      {{"samples", torch::zeros({2, 1, 4, 4}, torch::kByte)}, {"labels", torch::tensor({11, 2})}},
      {}};
  TensorFile sounds_ = {{{"samples", torch::zeros({2, 1, 4})}, {"labels", torch::tensor({0, 1})}},
                        {{"sample_rate", "8000"}}};
};

TEST_F(DatasetFile, ClassesWithoutNamesAreNumbers) {
  const Dataset dataset = read_tensors(images_);
  EXPECT_EQ(dataset.classes, (Names{"2", "11"}));
  EXPECT_EQ(labels(dataset), (Shape{1, 0}));
}

TEST_F(DatasetFile, RefusesWhatDoesNotFit) {
  TensorFile file = images_;
  file.tensors["labels"] = torch::tensor({0, 1, 2});
  expect_refused(file, "labels are int64 of shape [2], one per sample, found Long of shape [3]");
  file.tensors["labels"] = torch::tensor({0, -1});
  expect_refused(file, "found -1 to 0");
  file.tensors.erase("labels");
  expect_refused(file, "has no tensor 'labels'");
  file = images_;
  file.metadata["classes"] = "[\"a\", \"b\"]";
  expect_refused(file, "found 2 to 11 and 2 classes");
  file.metadata["classes"] = "a, b";
  expect_refused(file, "not a JSON list of names");
  file = images_;
  file.tensors["samples"] = torch::zeros({2, 4, 4, 4}, torch::kByte);
  expect_refused(file, "found Byte of shape [2, 4, 4, 4]");
}

TEST_F(DatasetFile, RefusesSoundsThatCannotBePlayed) {
  EXPECT_EQ(read_tensors(sounds_).sample_rate, 8000);
  TensorFile file = sounds_;
  file.metadata.clear();
  expect_refused(file, "need the metadata 'sample_rate'");
  file.metadata["sample_rate"] = "fast";
  expect_refused(file, "sample_rate");
  file = sounds_;
  file.tensors["samples"][1][0][2] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(file, "samples[1]: holds values that are no finite numbers");
  file.tensors["samples"][1][0][2] = -3;
  const Dataset clipped = read_tensors(file);
  EXPECT_EQ(clipped.samples.min().item<float>(), -1);
  EXPECT_EQ(clipped.notes, Names{"1 of 2 sounds was louder than 1 and clipped"});
}

}  // namespace
}  // namespace bespoke
