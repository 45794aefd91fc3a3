#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "bespoke/base/file.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {
namespace {

const std::string kCorpus = BESPOKE_SOURCE_DIR "/tests/fuzz/corpus";

class Corpus : public ::testing::TestWithParam<std::string> {};

// Names say what must become of a file: good-* is accepted, bad-* refused.
TEST_P(Corpus, IsReadOrRefusedInWords) {
  const Parser& parser = find_parser(GetParam());
  int good = 0, bad = 0;
  for (const auto& name : detail::list_files(kCorpus + "/" + parser.name)) {
    SCOPED_TRACE(name);
    const bool is_good = name.rfind("good-", 0) == 0;
    ASSERT_TRUE(is_good || name.rfind("bad-", 0) == 0) << "is it to be read or refused?";
    ++(is_good ? good : bad);
    const std::string bytes = detail::read_file(kCorpus + "/" + parser.name + "/" + name);
    EXPECT_NO_THROW(EXPECT_EQ(accepts(parser, bytes), is_good));
  }
  EXPECT_GT(good, 0);
  EXPECT_GT(bad, 0);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const auto& parser : parsers()) list.push_back(parser.name);
  std::sort(list.begin(), list.end());
  return list;
}

INSTANTIATE_TEST_SUITE_P(All, Corpus, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(Parser, AFindingIsNoRefusal) {
  const Parser broken = {"broken", [](const std::string&) { throw std::bad_alloc(); }};
  EXPECT_THROW(accepts(broken, ""), std::bad_alloc);
}

}  // namespace
}  // namespace bespoke::fuzz
