#include "bespoke/io/image.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

torch::Tensor bytes(const std::vector<int64_t>& shape) { return torch::zeros(shape, torch::kByte); }

TEST(ToBytes, RoundsHalfUpAndClamps) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  // 0 lies at 127.5, the value after it just below.
  const auto x =
      torch::tensor({-1.0, 0.0, -1e-9, 1.0, -2.0, 3.0, nan, infinity, -infinity}, torch::kDouble);
  const auto expected = torch::tensor({0, 128, 127, 255, 0, 255, 0, 255, 0}).to(torch::kByte);
  EXPECT_TRUE(torch::equal(to_bytes(x, -1, 1), expected));
  EXPECT_TRUE(torch::equal(to_bytes(torch::tensor({0.5, 1.5, 2.5}), 0, 255),
                           torch::tensor({1, 2, 3}).to(torch::kByte)));
  EXPECT_TRUE(torch::equal(to_bytes(torch::arange(256) / 255.0, 0, 1),
                           torch::arange(256).to(torch::kByte)));
  EXPECT_THROW(to_bytes(x, 1, 1), Error);
  EXPECT_THROW(to_bytes(x, 0, nan), Error);
}

TEST(ImageGrid, PlacesImagesRowByRow) {
  const auto images = torch::tensor({1, 2, 3}).to(torch::kByte).reshape({3, 1, 1, 1});
  const auto expected = torch::tensor({{240, 240, 240, 240, 240},
                                       {240, 1, 240, 2, 240},
                                       {240, 240, 240, 240, 240},
                                       {240, 3, 240, 240, 240},
                                       {240, 240, 240, 240, 240}})
                            .to(torch::kByte);
  GridOptions options;
  options.padding = 1;
  EXPECT_TRUE(torch::equal(image_grid(images, options)[0], expected));
  options.columns = 2;
  EXPECT_TRUE(torch::equal(image_grid(images, options)[0], expected));
  options.columns = 9;
  EXPECT_EQ(image_grid(images, options).sizes().vec(), (std::vector<int64_t>{1, 3, 7}));
}

TEST(ImageGrid, ZoomsByWholePixels) {
  const auto image = torch::tensor({1, 2, 3, 4, 5, 6}).to(torch::kByte).reshape({1, 3, 1, 2});
  const auto expected =
      torch::tensor({1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4, 5, 5, 6, 6, 5, 5, 6, 6})
          .to(torch::kByte)
          .reshape({3, 2, 4});
  EXPECT_TRUE(torch::equal(image_grid(image, {0, 0, 2}), expected));
}

TEST(ImageGrid, EnlargesWhatIsSmall) {
  EXPECT_EQ(zoom_to_see(bytes({10, 3, 12, 8})), 10);
  EXPECT_EQ(zoom_to_see(bytes({3, 512, 512})), 1);
}

TEST(ImageGrid, KeepsTheSizeOfTheImages) {
  const auto grid = image_grid(bytes({10, 3, 32, 32}));
  EXPECT_EQ(grid.sizes().vec(), (std::vector<int64_t>{3, 3 * 34 + 2, 4 * 34 + 2}));
}

TEST(ImageGrid, RefusesWhatIsNoGrid) {
  const auto images = bytes({2, 1, 2, 2});
  EXPECT_THROW(image_grid(images[0]), Error);
  EXPECT_THROW(image_grid(images.to(torch::kFloat)), Error);
  EXPECT_THROW(image_grid(bytes({2, 2, 2, 2})), Error);
  EXPECT_THROW(image_grid(bytes({0, 3, 2, 2})), Error);
  EXPECT_THROW(image_grid(images, {-1, 0, 1}), Error);
  EXPECT_THROW(image_grid(images, {0, -1, 1}), Error);
  EXPECT_THROW(image_grid(images, {0, 0, 0}), Error);
}

}  // namespace
}  // namespace bespoke
