#include "bespoke/distill/guided_search.h"

#include <gtest/gtest.h>

#include "bespoke/base/error.h"
#include "bespoke/distill/distill.h"

namespace bespoke {
namespace {

TEST(GuidedShapes, SpendExactlyTheCalls) {
  for (const int calls : {2, 3, 8, 15}) {
    const auto shapes = guided_shapes(calls);
    EXPECT_EQ(shapes.size(), static_cast<size_t>(calls / 2));
    int before = 0;
    for (const auto& shape : shapes) {
      EXPECT_EQ(shape.calls(), calls);
      EXPECT_TRUE(shape.guides_itself());
      EXPECT_GT(shape.nfe, before);
      before = shape.nfe;
    }
  }
  const auto one = guided_shapes(16, 10);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_TRUE(one.front() == guided_first(10, 6));
  EXPECT_TRUE(guided_shapes(16, 8).front() == guided_first(8, 8));
  for (const auto& [calls, nfe] : std::vector<std::pair<int, int>>{{1, 0}, {8, 8}, {17, 8}}) {
    EXPECT_THROW(guided_shapes(calls, nfe), Error) << calls << " " << nfe;
  }
}

// Each is a usage error that says what does not go together.
TEST(GuidedShapes, OptionsThatDoNotGoTogetherAreRefused) {
  const auto refused = [](const std::function<void(DistillOptions&)>& change) {
    DistillOptions options;
    options.field.schedule = fm_ot_schedule();
    options.network_calls = 16;
    options.nfe = 0;
    options.validate();
    change(options);
    try {
      options.validate();
    } catch (const Error& error) {
      return error.kind() == ErrorKind::usage ? std::string(error.what()) : std::string();
    }
    return std::string();
  };
  EXPECT_NE(refused([](auto& o) { o.method = Method::adam; }).find("instead of adam"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.family = bns_family(8); }).find("neither a family"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.nfe = 16; }).find("17 to 32 network calls"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.network_calls = 1; }).find("2 to 10000"), std::string::npos);
}

}  // namespace
}  // namespace bespoke
