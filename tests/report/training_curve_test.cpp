#include "bespoke/report/training_curve.h"

#include <gtest/gtest.h>

namespace bespoke {
namespace {

constexpr char kLog[] =
    R"({"start":0,"iteration":1,"loss":-3.5,"best_psnr":20.0,"seconds":0.1}
{"start":0,"iteration":2,"loss":-4.25,"validation_psnr":31.5,"best_psnr":31.5}
{"start":1,"iteration":1,"loss":null,"best_psnr":31.5}
not json
{"start":1,"iteration":2,"loss":-5,"validation_psnr":33.0,"best_psnr":33.0}
{"start":1,"iteration":3,"loss":-5.5,"validation_psnr":33.0,"best_psnr":33.0}
{"start":1,"iter)";

TEST(TrainingCurve, ReadsALogThatWasCutOff) {
  const auto points = parse_training_log(kLog);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[0].loss, -3.5);
  EXPECT_FALSE(points[0].validation_psnr);
  EXPECT_EQ(points[2].start, 1);
  EXPECT_EQ(points[2].iteration, 2);
  EXPECT_EQ(points[2].validation_psnr, 33.0);
}

TEST(TrainingCurve, KeepsTheFirstOfTheBest) {
  const auto best = best_iterate(parse_training_log(kLog));
  ASSERT_TRUE(best);
  EXPECT_EQ(best->start, 1);
  EXPECT_EQ(best->iteration, 2);
  EXPECT_FALSE(best_iterate({}));
  EXPECT_FALSE(best_iterate({{0, 1, -3.5, std::nullopt}}));
}

TEST(TrainingCurve, CountsAGradientAsTwoCalls) {
  TrainingCurve curve{"bns", 8, parse_training_log(R"(
{"iteration":1,"loss":-1,"forwards":100,"vjps":10,"validation_psnr":31}
{"iteration":2,"loss":-2,"forwards":200,"vjps":20,"validation_psnr":29}
{"iteration":3,"loss":-3,"forwards":300,"vjps":30}
{"iteration":4,"loss":-4,"forwards":400,"vjps":40,"validation_psnr":33}
)"),
                      1000, 30.0};
  using Points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(psnr_by_calls(curve), (Points{{1000, 30}, {1120, 31}, {1480, 33}}))
      << "the best so far";
  curve.initial_psnr.reset();
  EXPECT_EQ(psnr_by_calls(curve), (Points{{1120, 31}, {1480, 33}}));
}

}  // namespace
}  // namespace bespoke
