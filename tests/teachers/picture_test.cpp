// Scenes as pictures, where cairo and the font are installed.

#include "teachers/scenes/picture.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

std::optional<ScenePainter> painter() {
  try {
    return ScenePainter();
  } catch (const Error&) {
    return std::nullopt;
  }
}

TEST(ScenePainter, DrawsThingsWhereTheyAreAndNothingElsewhere) {
  const auto paint = painter();
  if (!paint) GTEST_SKIP() << "the font Noto Color Emoji is not installed";
  for (uint64_t i = 0; i < 50; ++i) {
    const Scene scene = draw_scene(1, i, SceneSplit::train);
    const torch::Tensor picture = paint->paint(scene).to(torch::kLong);
    const Colour& colour = background_colours()[static_cast<size_t>(scene.colour)];
    const torch::Tensor background =
        torch::tensor({colour.red, colour.green, colour.blue}, torch::kLong).reshape({3, 1, 1});
    torch::Tensor drawn = (picture - background).abs().amax(0).gt(2);
    for (const Figure& figure : scene.figures) {
      const auto from = [&](double middle) {
        return static_cast<int64_t>(middle - figure.size / 2) - 1;
      };
      const auto length = static_cast<int64_t>(figure.size) + 3;
      const torch::Tensor part =
          drawn.slice(0, std::max<int64_t>(from(figure.y), 0), from(figure.y) + length)
              .slice(1, std::max<int64_t>(from(figure.x), 0), from(figure.x) + length);
      EXPECT_GT(part.to(torch::kFloat).mean().item<double>(), 0.1) << scene.caption;
      part.fill_(false);
    }
    EXPECT_EQ(drawn.sum().item<int64_t>(), 0) << scene.caption;
  }
}

}  // namespace
}  // namespace bespoke
