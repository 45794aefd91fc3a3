#pragma once

#include <torch/types.h>

#include "teachers/scenes/scene.h"

namespace bespoke {

// Draws scenes by cairo, with the Noto Color Emoji font. Bad input where the font is not installed.
class ScenePainter {
 public:
  ScenePainter();

  torch::Tensor paint(const Scene& scene) const;  // uint8 [3, kSceneSize, kSceneSize]
};

}  // namespace bespoke
