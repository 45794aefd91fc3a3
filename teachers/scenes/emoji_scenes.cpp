// Draws the pictures and captions that the text-to-image model learns from.

#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/progress.h"
#include "bespoke/io/dataset.h"
#include "teachers/scenes/picture.h"

namespace bespoke {
namespace {

struct SceneOptions {
  int64_t count = 60000, test = 2000;
  int64_t seed = 1;
  std::string labels;  // empty: none, and all kinds of scenes
  std::string output;
};

// Which classes a picture can be labelled by.
std::vector<std::string> class_names(const std::string& labels) {
  std::vector<std::string> names;
  if (labels == "thing") {
    for (const Thing& thing : things()) names.emplace_back(thing.name);
  } else if (labels == "colour") {
    for (const Colour& colour : background_colours()) names.emplace_back(colour.name);
  } else if (labels == "place") {
    for (const char* place : places()) names.emplace_back(place);
  } else {
    names.emplace_back("all");
  }
  return names;
}

int64_t label_of(const Scene& scene, const std::string& labels) {
  if (labels == "thing") return scene.figures.front().thing;
  if (labels == "colour") return scene.colour;
  return labels == "place" ? scene.place : 0;
}

// Pictures that are labelled show one thing, and one whose place is said.
bool can_be_labelled(const Scene& scene) { return scene.figures.size() == 1 && scene.place >= 0; }

void write_scenes(const SceneOptions& options, SceneSplit split, int64_t count, uint64_t seed,
                  const std::string& name) {
  const ScenePainter painter;
  Progress progress("drawing " + name);
  Dataset data;
  data.samples = torch::empty({count, 3, kSceneSize, kSceneSize}, torch::kByte);
  std::vector<int64_t> labels;
  std::string captions;
  for (uint64_t index = 0; static_cast<int64_t>(labels.size()) < count; ++index) {
    const Scene scene = draw_scene(seed, index, split);
    if (!options.labels.empty() && !can_be_labelled(scene)) continue;
    data.samples[static_cast<int64_t>(labels.size())].copy_(painter.paint(scene));
    labels.push_back(label_of(scene, options.labels));
    captions += scene.caption + "\n";
    progress.update(static_cast<double>(labels.size()) / static_cast<double>(count));
  }
  data.labels = torch::tensor(labels, torch::kLong);
  data.classes = class_names(options.labels);
  const std::filesystem::path folder = options.output;
  write_dataset(folder / (name + ".safetensors"), data);
  detail::write_file_atomically(folder / (name + ".txt"), captions);
}

void run(const SceneOptions& options) {
  std::filesystem::create_directories(options.output);
  const auto seed = static_cast<uint64_t>(options.seed);
  write_scenes(options, SceneSplit::train, options.count, seed, "train");
  write_scenes(options, SceneSplit::test, options.test, seed + 1, "test");
}

}  // namespace
}  // namespace bespoke

int main(int argc, char** argv) {
  bespoke::SceneOptions options;
  CLI::App app(
      "Draws scenes of emoji with captions: train.safetensors and train.txt, and test.* with "
      "things on colours that training never shows them on.");
  app.add_option("--count", options.count, "training scenes")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--test", options.test, "test scenes")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--labels", options.labels, "only scenes of one thing, labelled for a classifier")
      ->check(CLI::IsMember({"thing", "colour", "place"}));
  app.add_option("-o,--output", options.output, "folder")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    bespoke::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "emoji_scenes: {}\n", error.what());
    return 3;
  }
  return 0;
}
