// bespoke/bespoke.h and bespoke/core.h are the table of contents of the library: what a user
// includes, in blocks under a sentence each. Other headers are parts of these.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/source_files.h"
#include "bespoke/base/file.h"
#include "bespoke/base/text.h"

namespace {

using namespace bespoke::testing;

constexpr char kCore[] = "bespoke/core.h", kAll[] = "bespoke/bespoke.h";

std::string text_of(const std::string& header) {
  return bespoke::detail::read_file(source_root() + "/include/" + header);
}

std::vector<std::string> listed_in(const std::string& header) {
  return includes_of(source_root() + "/include/" + header);
}

// The parts of a header between empty lines.
std::vector<std::string> blocks_of(const std::string& header) {
  std::vector<std::string> blocks(1);
  for (const auto& line : bespoke::detail::split(text_of(header), '\n')) {
    if (line.empty()) {
      blocks.emplace_back();
    } else {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

TEST(PublicHeaders, TheCoreListsOnlyItsOwn) {
  const std::set<std::string> folders = {"base", "path", "solver", "run", "distill"};
  for (const auto& name : listed_in(kCore)) {
    const std::string folder = bespoke::detail::split(name, '/').at(1);
    EXPECT_TRUE(folders.count(folder) > 0 || name == "bespoke/version.h") << name;
  }
}

TEST(PublicHeaders, AreFewAndListedOnce) {
  std::vector<std::string> all = listed_in(kCore);
  for (const auto& name : listed_in(kAll)) all.push_back(name);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_GT(all.size(), 40u) << "the test no longer finds the headers";
  EXPECT_LT(all.size(), 60u) << "a table of contents is short: is this for users?";
}

// A header that declares nothing but helpers is for the library alone.
TEST(PublicHeaders, AreForUsers) {
  for (const std::string header : {kCore, kAll}) {
    for (const auto& name : listed_in(header)) {
      EXPECT_EQ(text_of(name).find("namespace bespoke::detail {"), std::string::npos) << name;
    }
  }
}

// Each block says what it is for and lists its headers in order.
TEST(PublicHeaders, StandInBlocksUnderASentence) {
  for (const std::string header : {kCore, kAll}) {
    for (const auto& block : blocks_of(header)) {
      if (block.rfind("#include \"bespoke/core.h\"", 0) == 0 ||
          block.find("version.h") != block.npos || block.find("#include") == block.npos) {
        continue;
      }
      EXPECT_EQ(block.rfind("// ", 0), 0u) << header << ": " << block;
      EXPECT_NE(block.find(".\n#include"), block.npos) << header << ": " << block;
    }
  }
}

}  // namespace
