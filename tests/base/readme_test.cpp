// The README and the guide for C++ quote examples as they are, whole or lines that follow each
// other. A quotation is a fenced block after a line that names the file: <!-- examples/NAME -->

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "base/source_files.h"
#include "bespoke/base/file.h"

namespace {

using namespace bespoke::testing;

// Of every quotation in a text, the file it names and what stands between its fences.
std::map<std::string, std::string> quotations(const std::string& text) {
  std::map<std::string, std::string> found;
  std::istringstream lines(text);
  std::string name, line;
  while (std::getline(lines, line)) {
    if (starts_with(line, "<!-- examples/")) {
      name = line.substr(5, line.find(" -->") - 5);
      found[name] = "";
      continue;
    }
    if (!name.empty() && starts_with(line, "```")) {
      while (std::getline(lines, line) && line != "```") found[name] += line + "\n";
      name.clear();
    }
  }
  return found;
}

TEST(Readme, QuotesExamplesAsTheyAre) {
  for (const std::string page : {"/README.md", "/docs/guide/cpp.md"}) {
    const auto found = quotations(bespoke::detail::read_file(source_root() + page));
    EXPECT_EQ(found.count("examples/distill_callable.cpp"), 1u) << page;
    for (const auto& [name, quoted] : found) {
      const std::string example = bespoke::detail::read_file(source_root() + "/" + name);
      EXPECT_FALSE(quoted.empty()) << page;
      EXPECT_NE(("\n" + example).find("\n" + quoted), std::string::npos) << page << quoted;
    }
  }
}

TEST(Readme, QuotationsAreFound) {
  const auto found =
      quotations("text\n<!-- examples/a.cpp -->\n```cpp\nint a;\n\n```\n```cpp\nint b;\n```\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.at("examples/a.cpp"), "int a;\n\n");
}

}  // namespace
