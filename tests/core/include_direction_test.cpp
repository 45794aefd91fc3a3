// The corridor: path -> model -> solver -> distill -> measure -> report. A folder includes only
// what is to its left, plus core; io serves distill, report and app; app includes everything.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"core", {}},
      {"path", {"core"}},
      {"model", {"core", "path"}},
      {"solver", {"core", "path", "model"}},
      {"io", {"core", "path", "model", "solver"}},
      {"distill", {"core", "path", "model", "solver", "io"}},
      {"measure", {"core", "path", "model", "solver", "distill"}},
      {"report", {"core", "path", "model", "solver", "distill", "measure", "io"}},
  };
  return table;
}

// Checks every file of one folder; returns how many includes of ours it saw.
int check_folder(const fs::path& folder, const std::string& name) {
  static const std::regex include(R"re(#include ["<]bespoke/([a-z]+)/)re");
  int seen = 0;
  if (!fs::exists(folder)) return seen;
  for (const auto& file : fs::recursive_directory_iterator(folder)) {
    if (!file.is_regular_file()) continue;
    std::ifstream stream(file.path());
    for (std::string line; std::getline(stream, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      ++seen;
      const std::string target = match[1];
      EXPECT_TRUE(target == name || allowed().at(name).count(target) == 1)
          << file.path() << " (in " << name << ") must not include " << target;
    }
  }
  return seen;
}

TEST(IncludeDirection, FoldersIncludeOnlyWhatIsToTheirLeft) {
  const fs::path root = BESPOKE_SOURCE_DIR;
  int seen = 0;
  for (const auto& entry : allowed()) {
    seen += check_folder(root / "src" / entry.first, entry.first);
    seen += check_folder(root / "include/bespoke" / entry.first, entry.first);
  }
  EXPECT_GT(seen, 50) << "the test no longer finds the sources";
}

TEST(IncludeDirection, EveryFolderOfTheLibraryHasItsPlace) {
  const fs::path root = BESPOKE_SOURCE_DIR;
  for (const auto& folder : fs::directory_iterator(root / "src")) {
    if (folder.is_directory()) {
      EXPECT_EQ(allowed().count(folder.path().filename().string()), 1u) << folder.path();
    }
  }
}

}  // namespace
