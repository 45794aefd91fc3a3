// The corridor: path -> model -> solver -> distill -> measure -> report. A folder includes only
// what is to its left, plus core; io serves distill, report and app; app includes everything.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

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

// The files or folders (type 'f' or 'd') below a folder, as find lists them.
std::vector<std::string> find(const std::string& folder, char type) {
  const std::string command = "find '" + folder + "' -mindepth 1 -type " + type + " 2>/dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::vector<std::string> names;
  char line[4096];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) {
    names.emplace_back(line, std::strcspn(line, "\n"));
  }
  ::pclose(pipe);
  return names;
}

// Checks every file of one folder; returns how many includes of ours it saw.
int check_folder(const std::string& folder, const std::string& name) {
  static const std::regex include(R"re(#include ["<]bespoke/([a-z]+)/)re");
  int seen = 0;
  for (const auto& file : find(folder, 'f')) {
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      ++seen;
      const std::string target = match[1];
      EXPECT_TRUE(target == name || allowed().at(name).count(target) == 1)
          << file << " (in " << name << ") must not include " << target;
    }
  }
  return seen;
}

TEST(IncludeDirection, FoldersIncludeOnlyWhatIsToTheirLeft) {
  const std::string root = BESPOKE_SOURCE_DIR;
  int seen = 0;
  for (const auto& entry : allowed()) {
    seen += check_folder(root + "/src/" + entry.first, entry.first);
    seen += check_folder(root + "/include/bespoke/" + entry.first, entry.first);
  }
  EXPECT_GT(seen, 50) << "the test no longer finds the sources";
}

// A folder within a folder belongs to it.
TEST(IncludeDirection, EveryFolderOfTheLibraryHasItsPlace) {
  const std::string root = BESPOKE_SOURCE_DIR "/src/";
  for (const auto& folder : find(root, 'd')) {
    const std::string below = folder.substr(root.size());
    EXPECT_EQ(allowed().count(below.substr(0, below.find('/'))), 1u) << folder;
  }
}

}  // namespace
