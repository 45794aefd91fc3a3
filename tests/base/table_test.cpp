#include "bespoke/base/table.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

Table example() {
  Table table({{"name"}, {"psnr", true, 2}});
  table.add_row({"euler", 21.256});
  table.add_row({"a, \"b\"", nullptr});
  return table;
}

TEST(Table, AlignsForPeople) {
  EXPECT_EQ(example().render(TableFormat::table, "Title"),
            "Title\n\n"
            "name     psnr\n"
            "------  -----\n"
            "euler   21.26\n"
            "a, \"b\"      -\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({{"σ"}, {"x", true}});
  table.add_row({"αβ", 1});
  EXPECT_EQ(table.render(TableFormat::table), "σ   x\n--  -\nαβ  1\n");
}

TEST(Table, WritesMarkdown) {
  EXPECT_EQ(example().render(TableFormat::md),
            "| name | psnr |\n| --- | ---: |\n| euler | 21.26 |\n| a, \"b\" | - |\n");
}

TEST(Table, GivesProgramsExactNumbersAndQuotes) {
  EXPECT_EQ(example().render(TableFormat::csv), "name,psnr\neuler,21.256\n\"a, \"\"b\"\"\",\n");
  const auto json = nlohmann::json::parse(example().render(TableFormat::json));
  EXPECT_EQ(json[0]["psnr"], 21.256);
  EXPECT_TRUE(json[1]["psnr"].is_null());
}

TEST(Table, RefusesUnknownFormatsAndShortRows) {
  EXPECT_THROW(parse_table_format("tabel"), Error);
  EXPECT_EQ(parse_table_format("md"), TableFormat::md);
  EXPECT_THROW(example().add_row({"only one"}), std::logic_error);
}

}  // namespace
}  // namespace bespoke
