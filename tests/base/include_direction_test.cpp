// The corridor: base -> path -> solver -> run -> distill -> tensor -> model -> sample -> io ->
// recipe -> measure -> report -> jobs. A folder includes only what is to its left; app and tests
// include everything. The first five are bespoke::core, from which no library of tensors, pictures
// or sounds is in reach.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/source_files.h"

namespace {

using namespace bespoke::testing;

const std::vector<std::string>& corridor() {
  static const std::vector<std::string> folders = {"base",    "path",   "solver", "run", "distill",
                                                   "tensor",  "model",  "sample", "io",  "recipe",
                                                   "measure", "report", "jobs"};
  return folders;
}

constexpr size_t kCoreFolders = 5;

// Its place in the corridor, or one past the end.
size_t place_of(const std::string& folder) {
  return static_cast<size_t>(std::find(corridor().begin(), corridor().end(), folder) -
                             corridor().begin());
}

// The public headers and the sources of a folder.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files = find(source_root() + "/src/" + folder, 'f');
  const auto headers = find(source_root() + "/include/bespoke/" + folder, 'f');
  files.insert(files.end(), headers.begin(), headers.end());
  return files;
}

constexpr char kOurs[] = "bespoke/";

// "solver" of "bespoke/solver/grid.h"; empty if it is in none of our folders, as version.h, which
// every folder may include.
std::string folder_of(const std::string& include) {
  if (!starts_with(include, kOurs)) return "";
  const std::string below = include.substr(std::strlen(kOurs));
  const size_t end = below.find('/');
  return end == std::string::npos ? "" : below.substr(0, end);
}

TEST(IncludeDirection, FoldersIncludeOnlyWhatIsToTheirLeft) {
  int seen = 0;
  for (const auto& folder : corridor()) {
    for (const auto& file : files_of(folder)) {
      for (const auto& include : includes_of(file)) {
        const std::string target = folder_of(include);
        if (target.empty()) continue;
        ++seen;
        EXPECT_LE(place_of(target), place_of(folder)) << file << " must not include " << include;
      }
    }
  }
  EXPECT_GT(seen, 50) << "the test no longer finds the sources";
}

// A folder within a folder belongs to it.
TEST(IncludeDirection, EveryFolderOfTheLibraryHasItsPlace) {
  for (const std::string& above : {source_root() + "/src/", source_root() + "/include/bespoke/"}) {
    for (const auto& folder : find(above, 'd')) {
      const std::string below = folder.substr(above.size());
      EXPECT_LT(place_of(below.substr(0, below.find('/'))), corridor().size()) << folder;
    }
  }
}

// The file an include means: a public header of ours, a file beside the one that includes it, or
// none that is ours.
std::string resolved(const std::string& include, const std::string& from) {
  const std::string path = starts_with(include, kOurs)
                               ? source_root() + "/include/" + include
                               : from.substr(0, from.rfind('/') + 1) + include;
  return std::ifstream(path).good() ? path : "";
}

// All that is in reach of a file, through headers of ours: of theirs, the names alone.
void reach(const std::string& file, std::set<std::string>& files, std::set<std::string>& theirs) {
  if (!files.insert(file).second) return;
  for (const auto& include : includes_of(file)) {
    const std::string next = resolved(include, file);
    if (next.empty()) {
      theirs.insert(include);
    } else {
      reach(next, files, theirs);
    }
  }
}

TEST(IncludeDirection, TheCoreReachesNoOtherLibrary) {
  static const std::regex forbidden(R"re(^(torch|ATen|c10)/|^(png|jpeglib|zip|sndfile|cairo))re");
  size_t seen = 0;
  for (size_t i = 0; i < kCoreFolders; ++i) {
    for (const auto& file : files_of(corridor()[i])) {
      std::set<std::string> files, theirs;
      reach(file, files, theirs);
      seen += theirs.size();
      for (const auto& name : theirs) {
        EXPECT_FALSE(std::regex_search(name, forbidden)) << file << " reaches <" << name << ">";
      }
    }
  }
  EXPECT_GT(seen, 200u) << "the test no longer follows includes";
}

}  // namespace
