#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bespoke {

// A thing that scenes show: a glyph of the Noto Color Emoji font by its Unicode name.
struct Thing {
  const char* name;
  const char* plural;
  char32_t glyph;
};
const std::vector<Thing>& things();

struct Colour {
  const char* name;
  uint8_t red, green, blue;
};
const std::vector<Colour>& background_colours();

// Where a thing is said to be.
const std::vector<const char*>& places();  // "at the top left" ... three rows of three

// One thing in a scene. Places and sizes in pixels of a picture of kSceneSize.
constexpr int kSceneSize = 64;
struct Figure {
  int64_t thing;
  double x, y;  // of its middle
  double size;
};

// What is drawn, and how it is said in words. -1: not said, and left to chance.
struct Scene {
  std::vector<Figure> figures;
  int64_t colour = 0;
  int64_t place = -1;  // of a thing that is alone
  std::string caption;
};

// Training scenes never show a thing on a colour that is kept for testing; test scenes show no
// others.
enum class SceneSplit { train, test };
bool is_kept_for_testing(int64_t thing, int64_t colour);

// Scene number `index` of a seed: the same whatever was drawn before.
Scene draw_scene(uint64_t seed, uint64_t index, SceneSplit split);

}  // namespace bespoke
