#include "bespoke/recipe/gapped_sounds.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kManifest[] = "manifest.jsonl";

struct ManifestLine {
  GappedSound sound;
  TimeSpan span;
};

ManifestLine read_line(const std::string& text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where, "a line is one object");
  require(json.is_object(), where, "must be one object a line");
  for (const char* key : {"file", "text", "span"}) {
    require(json.contains(key), where, fmt::format("the key \"{}\" is missing", key));
  }
  ManifestLine line;
  line.sound.file = text_value(json["file"], where + ": file");
  line.sound.text = text_value(json["text"], where + ": text");
  if (json.contains("said")) line.sound.said = text_value(json["said"], where + ": said");
  const auto span = number_list(json["span"], where + ": span", 2);
  require(span[0] < span[1], where + ": span", "must be [from, to] in seconds");
  line.span = {span[0], span[1]};
  return line;
}

void add_note(std::vector<std::string>& notes, int64_t count, const std::string& what) {
  if (count == 0) return;
  notes.push_back(fmt::format("{} {} {}", count, count == 1 ? "sound was" : "sounds were", what));
}

}  // namespace

std::vector<InfillWindow> GappedSounds::windows() const {
  std::vector<InfillWindow> all;
  for (const auto& sound : sounds) all.push_back(sound.window);
  return all;
}

GappedSounds read_gapped_sounds(const std::filesystem::path& folder, const ModelCard& card) {
  const auto manifest = folder / kManifest;
  if (!is_file(manifest)) {
    throw bad_input("{} is not there; it has a line for each sound, {}", manifest.string(),
                    R"({"file": "1.wav", "text": "three five two", "span": [0.8, 1.4]})");
  }
  GappedSounds result;
  int64_t resampled = 0, mixed = 0, number = 0;
  for (const auto& text : split(read_text_file(manifest), '\n')) {
    ++number;
    if (text.empty()) continue;
    const std::string where = fmt::format("{}, line {}", manifest.string(), number);
    ManifestLine line = read_line(text, where);
    const auto path = folder / line.sound.file;
    line.sound.window = read_checked(path.string(), [&] {
      const WavFile file = read_wav(path);
      resampled += file.sample_rate != card.sample_rate ? 1 : 0;
      mixed += file.audio.size(0) > 1 ? 1 : 0;
      return prepare_sound(file, line.span, card).window;
    });
    result.sounds.push_back(std::move(line.sound));
  }
  if (result.sounds.empty()) throw bad_input("{} has no sounds", manifest.string());
  add_note(result.notes, resampled, fmt::format("resampled to {} Hz", card.sample_rate));
  add_note(result.notes, mixed, "mixed down to one channel");
  return result;
}

}  // namespace bespoke
