#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "bespoke/base/file.h"
#include "bespoke/base/text.h"
#include "fuzz/json_mutator.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {
namespace {

const std::string kSource = BESPOKE_SOURCE_DIR;

// BESPOKE_MUTATIONS of each parser, where somebody has the time.
uint64_t mutation_count() {
  constexpr uint64_t kUsual = 4000;
  const char* asked = std::getenv("BESPOKE_MUTATIONS");
  return asked == nullptr
             ? kUsual
             : static_cast<uint64_t>(detail::parse_integer(asked, "BESPOKE_MUTATIONS"));
}

// What the parser accepts: of its corpus, and of cards the models that are there.
std::vector<std::string> good_documents(const Parser& parser) {
  std::vector<std::string> paths;
  const std::string corpus = kSource + "/tests/fuzz/corpus/" + parser.name + "/";
  for (const auto& name : detail::list_files(corpus)) {
    if (name.rfind("good-", 0) == 0) paths.push_back(corpus + name);
  }
  const std::string models = kSource + "/models/";
  for (const auto& name : detail::list_files(models)) {
    const bool card = std::filesystem::path(name).extension() == ".json";
    if (parser.name == "model_card" && card) paths.push_back(models + name);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) texts.push_back(detail::read_file(path));
  return texts;
}

class Mutated : public ::testing::TestWithParam<std::string> {};

TEST_P(Mutated, DocumentsAreReadOrRefusedInWords) {
  const Parser& parser = find_parser(GetParam());
  const auto documents = good_documents(parser);
  ASSERT_FALSE(documents.empty());
  uint64_t accepted = 0, count = mutation_count();
  for (uint64_t seed = 0; seed < count; ++seed) {
    const std::string text = mutated_json(documents[seed % documents.size()], documents, seed);
    ASSERT_NO_THROW(accepted += accepts(parser, text) ? 1 : 0) << "seed " << seed << ": " << text;
  }
  // The mutations are neither harmless nor mere noise.
  EXPECT_GT(accepted, 0u);
  EXPECT_LT(accepted, count);
}

std::vector<std::string> json_parsers() {
  std::vector<std::string> list;
  for (const auto& parser : parsers()) {
    if (reads_json(parser)) list.push_back(parser.name);
  }
  std::sort(list.begin(), list.end());
  return list;
}

INSTANTIATE_TEST_SUITE_P(All, Mutated, ::testing::ValuesIn(json_parsers()),
                         [](const auto& info) { return info.param; });

TEST(JsonMutator, ChangesADocumentTheSameWayForASeed) {
  const std::string text = R"({"a": [1, 2, {"b": "c"}], "d": 0.5})";
  int changed = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::string mutated = mutated_json(text, {text}, seed);
    EXPECT_EQ(mutated, mutated_json(text, {text}, seed));
    changed += mutated != mutated_json(text, {text}, seed + 1) ? 1 : 0;
  }
  EXPECT_GT(changed, 90);
}

}  // namespace
}  // namespace bespoke::fuzz
