#include "bespoke/base/time_span.h"

#include <gtest/gtest.h>

#include "bespoke/base/error.h"

namespace bespoke {
namespace {

TEST(TimeSpan, IsReadFromTwoNumbers) {
  const TimeSpan span = parse_time_span("0.8-1.4", "--span");
  EXPECT_EQ(span.from, 0.8);
  EXPECT_EQ(span.to, 1.4);
  EXPECT_EQ(parse_time_span("-1-2", "--span").from, -1);
  for (const char* bad : {"", "-", "1", "1-", "2-1", "1-1", "a-b", "0-inf", "1-2-3"}) {
    EXPECT_THROW(parse_time_span(bad, "--span"), Error) << bad;
  }
}

}  // namespace
}  // namespace bespoke
