#include <gtest/gtest.h>

#include "bespoke/solver/catalogue.h"
#include "plain_field.h"

namespace bespoke {
namespace {

TEST(Pad, SpendsMoreEvaluationsAndComputesTheSame) {
  const auto field = testing::mixture_field(testing::plain_mixture(), fm_ot_schedule());
  const auto x0 = testing::normal_array(1, 5, 6);
  for (const auto* name : {"euler", "midpoint", "ab2", "dpm++2m"}) {
    const NsSolver solver = make_solver(name, {4, fm_ot_schedule(), ""});
    const auto expected = testing::run(solver, field, x0);
    for (const int nfe : {4, 5, 7, 11}) {
      const NsSolver padded = pad(solver, nfe);
      EXPECT_NO_THROW(padded.validate());
      EXPECT_EQ(padded.nfe(), nfe);
      EXPECT_LT(testing::relative_error(testing::run(padded, field, x0), expected), 1e-12)
          << name << " " << nfe;
    }
  }
}

// The states in between are those of the solver, and halfway between them.
TEST(Pad, PutsTheNewStatesBetweenTheOld) {
  const NsSolver padded = pad(make_solver("euler", {1, fm_ot_schedule(), ""}), 2);
  EXPECT_EQ(padded.times, (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(padded.a, (std::vector<double>{1, 1}));
  EXPECT_EQ(padded.b, (std::vector<std::vector<double>>{{0.5}, {1, 0}}));
}

}  // namespace
}  // namespace bespoke
