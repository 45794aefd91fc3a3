// The scenes that a text-to-image model learns from.

#include "teachers/scenes/scene.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "bespoke/model/vocabulary.h"

namespace bespoke {
namespace {

constexpr uint64_t kScenes = 3000;

TEST(Scene, DependsOnItsSeedAndNumberAlone) {
  std::vector<std::string> forwards;
  for (uint64_t i = 0; i < 20; ++i) {
    forwards.push_back(draw_scene(3, i, SceneSplit::train).caption);
  }
  for (uint64_t i = 20; i-- > 0;) {
    EXPECT_EQ(draw_scene(3, i, SceneSplit::train).caption, forwards[i]);
  }
  std::set<std::string> captions;
  for (uint64_t i = 0; i < 100; ++i) {
    captions.insert(draw_scene(3, i, SceneSplit::train).caption);
    captions.insert(draw_scene(4, i, SceneSplit::train).caption);
  }
  EXPECT_GT(captions.size(), 190U);
}

TEST(Scene, KeepsCombinationsApartForTesting) {
  for (uint64_t i = 0; i < kScenes; ++i) {
    for (const SceneSplit split : {SceneSplit::train, SceneSplit::test}) {
      const Scene scene = draw_scene(1, i, split);
      for (const Figure& figure : scene.figures) {
        EXPECT_EQ(is_kept_for_testing(figure.thing, scene.colour), split == SceneSplit::test)
            << scene.caption;
      }
    }
  }
}

// Every word of a test caption is known from training: only combinations are new.
TEST(Scene, TestsNoWordThatTrainingLacks) {
  std::set<std::string> known;
  for (uint64_t i = 0; i < 10 * kScenes; ++i) {
    for (const auto& word : caption_words(draw_scene(1, i, SceneSplit::train).caption)) {
      known.insert(word);
    }
  }
  for (uint64_t i = 0; i < kScenes; ++i) {
    for (const auto& word : caption_words(draw_scene(2, i, SceneSplit::test).caption)) {
      EXPECT_TRUE(known.count(word)) << word;
    }
  }
}

TEST(Scene, SaysWhatItShows) {
  for (uint64_t i = 0; i < kScenes; ++i) {
    const Scene scene = draw_scene(5, i, SceneSplit::train);
    const std::string& caption = scene.caption;
    const auto says = [&](const std::string& words) {
      return caption.find(words) != std::string::npos;
    };
    EXPECT_TRUE(says(background_colours()[static_cast<size_t>(scene.colour)].name)) << caption;
    for (const Figure& figure : scene.figures) {
      const Thing& thing = things()[static_cast<size_t>(figure.thing)];
      EXPECT_TRUE(says(thing.name) || says(thing.plural)) << caption;
      EXPECT_GE(std::min(figure.x, figure.y), figure.size / 2 - 1) << caption;
      EXPECT_LE(std::max(figure.x, figure.y), kSceneSize - figure.size / 2 + 1) << caption;
    }
    EXPECT_EQ(says("two "),
              scene.figures.size() == 2 && scene.figures[0].thing == scene.figures[1].thing)
        << caption;
    const Figure& first = scene.figures.front();
    EXPECT_TRUE(!says("left") || first.x < kSceneSize / 2.0) << caption;
    EXPECT_TRUE(!says("bottom") || first.y > kSceneSize / 2.0) << caption;
  }
}

}  // namespace
}  // namespace bespoke
