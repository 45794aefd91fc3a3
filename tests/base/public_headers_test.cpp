// bespoke/bespoke.h and bespoke/core.h include all that they promise. A header that declares
// nothing but helpers (namespace bespoke::detail) is none of their business.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/source_files.h"
#include "bespoke/base/file.h"

namespace {

using namespace bespoke::testing;

std::string include_folder() { return source_root() + "/include/"; }

// Of every public header below `folder`, the name it is included by.
std::set<std::string> public_headers(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& file : find(include_folder() + folder, 'f')) {
    const std::string text = bespoke::detail::read_file(file);
    if (text.find("namespace bespoke::detail {") != std::string::npos) continue;
    names.insert(file.substr(include_folder().size()));
  }
  return names;
}

std::set<std::string> included_by(const std::string& header) {
  const auto names = includes_of(include_folder() + header);
  return {names.begin(), names.end()};
}

TEST(PublicHeaders, CoreHasAllThatNeedsNoTensors) {
  std::set<std::string> expected = {"bespoke/version.h"};
  for (const std::string folder : {"base", "path", "solver", "run", "distill"}) {
    expected.merge(public_headers("bespoke/" + folder));
  }
  ASSERT_GT(expected.size(), 20u) << "the test no longer finds the headers";
  EXPECT_EQ(included_by("bespoke/core.h"), expected);
}

TEST(PublicHeaders, BespokeHasAllThereIs) {
  std::set<std::string> expected = public_headers("bespoke"), found = included_by("bespoke/core.h");
  ASSERT_GT(expected.size(), 60u) << "the test no longer finds the headers";
  expected.erase("bespoke/bespoke.h");
  found.merge(included_by("bespoke/bespoke.h"));
  EXPECT_EQ(found, expected);
}

TEST(PublicHeaders, AreListedInOrder) {
  const auto core = includes_of(include_folder() + "bespoke/core.h");
  EXPECT_TRUE(std::is_sorted(core.begin(), core.end()));
  const auto all = includes_of(include_folder() + "bespoke/bespoke.h");
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front(), "bespoke/core.h");
  EXPECT_TRUE(std::is_sorted(all.begin() + 1, all.end()));
}

}  // namespace
