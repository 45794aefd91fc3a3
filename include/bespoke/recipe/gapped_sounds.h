#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bespoke/recipe/infill.h"

namespace bespoke {

// A sound with a gap that a model is to fill.
struct GappedSound {
  std::string file;
  std::string text;  // what is said in all of it
  std::string said;  // what is said in the gap; empty where that is not known
  InfillWindow window;
};

// Sounds of a folder with a manifest.jsonl, a line for each:
// {"file": "1.wav", "text": "three five two", "span": [0.8, 1.4], "said": "five"}
// with other keys left alone, "said" optional, and spans in seconds.
struct GappedSounds {
  std::vector<GappedSound> sounds;
  std::vector<std::string> notes;  // sentences for the user: what was resampled or mixed down

  std::vector<InfillWindow> windows() const;
};

// Bad input names the line or the file.
GappedSounds read_gapped_sounds(const std::filesystem::path& folder, const ModelCard& card);

}  // namespace bespoke
