// What solvers with built-in guidance are made of, and who refuses them.

#include "bespoke/solver/solver_shape.h"

#include <gtest/gtest.h>

#include <functional>

#include "bespoke/base/error.h"
#include "bespoke/solver/c_header.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/exported_text.h"
#include "bespoke/solver/lowering.h"
#include "bespoke/solver/named_solver.h"
#include "refusal.h"
#include "self_guided.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

using testing::guided_in_the_first;
using testing::refusal;
using testing::self_guided;

NsSolver midpoint() { return make_solver("midpoint", {4, fm_ot_schedule()}); }

TEST(SolverShape, CountsColumnsAndCalls) {
  const SolverShape shape = {5, {0, 1, 3}};
  EXPECT_TRUE(shape.is_guided(0));
  EXPECT_FALSE(shape.is_guided(2));
  EXPECT_EQ(shape.differences(0), 1u);
  EXPECT_EQ(shape.differences(2), 2u);
  EXPECT_EQ(shape.differences(4), 3u);
  EXPECT_EQ(shape.columns(2), 1u + 3u + 2u);
  EXPECT_EQ(shape.calls(), 8);
  EXPECT_EQ(shape.calls_from(1), 6);
  EXPECT_EQ(shape.calls_from(4), 1);
  EXPECT_EQ(shape.calls_from(5), 0);
  const SolverShape ordinary = 5;
  EXPECT_FALSE(ordinary.guides_itself());
  EXPECT_EQ(ordinary.calls(), 5);
  EXPECT_EQ(ordinary.columns(2), 4u);
  EXPECT_TRUE(guided_first(5, 2) == SolverShape(5, {0, 1}));
}

TEST(SolverShape, OfASolverIsPartOfWhatItIs) {
  const NsSolver plain = midpoint(), own = guided_in_the_first(plain, 2, 1.5);
  own.validate();
  EXPECT_EQ(own.shape().calls(), 6);
  EXPECT_FALSE(plain == own);
  EXPECT_EQ(plain.parameter_count(), 4 * 9 / 2 + 1);
  EXPECT_EQ(own.parameter_count(), plain.parameter_count() + 1 + 2 + 2 + 2);
  EXPECT_EQ(step_coefficients(own, 1),
            (std::vector<double>{own.a[1], own.b[1][0], own.b[1][1], own.c[1][0], own.c[1][1]}));
  NsSolver other = own;
  other.c.back()[0] += 1;
  EXPECT_TRUE(same_evaluations(own, other));
  other.c.front()[0] += 1;
  EXPECT_FALSE(same_evaluations(own, other));
  EXPECT_FALSE(same_evaluations(own, plain));
}

TEST(SolverShape, MistakesAreNamed) {
  const auto said = [](const std::function<void(NsSolver&)>& change) {
    NsSolver solver = guided_in_the_first(midpoint(), 2, 1);
    change(solver);
    return refusal([&] { solver.validate(); });
  };
  EXPECT_NE(said([](NsSolver& s) { s.guided = {0, 4}; }).find("guided[1] is 4"), std::string::npos);
  EXPECT_NE(said([](NsSolver& s) { s.guided = {1, 1}; }).find("must rise"), std::string::npos);
  EXPECT_NE(said([](NsSolver& s) { s.c.pop_back(); }).find("c has 3 rows"), std::string::npos);
  EXPECT_NE(said([](NsSolver& s) { s.c[1] = {1}; }).find("c[1] has 1 entries"), std::string::npos);
  EXPECT_NE(said([](NsSolver& s) { s.c[2][1] = NAN; }).find("c[2][1]"), std::string::npos);
  EXPECT_NE(said([](NsSolver& s) { s.guided.clear(); }).find("need 0"), std::string::npos);
}

TEST(SolverShape, IsRefusedWhereOnlyOneVelocityCanBeRunOn) {
  const NsSolver own = self_guided(midpoint(), 2);
  const SchedulePtr schedule = fm_ot_schedule();
  const SolverFile file = {"own", {Prediction::velocity, schedule, 2}, {{own}}};
  const std::vector<std::function<void()>> all = {
      [&] { pad(own, 6); },
      [&] { lower(own, Prediction::noise, *schedule, 1e-4); },
      [&] { lower_to_sigmas(own, *schedule, 1e-4); },
      [&] { c_header(file); },
      [&] { markdown_text(file); },
      [&] { latex_text(file); },
      [&] { sigmas_text(file); },
      [&] { diffusers_config_text(file); }};
  for (const auto& one : all) {
    EXPECT_NE(refusal(one).find("cannot take a solver with built-in guidance"), std::string::npos);
  }
  EXPECT_TRUE(pad(own, 4) == own);
}

TEST(SolverShape, AFileIsForItsOwnWeightAlone) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "own.solver.json").string();
  const FieldDescription field = {Prediction::velocity, fm_ot_schedule(), 2};
  write_solver_file(path, {"own", field, {{self_guided(midpoint(), 2)}}});
  EXPECT_EQ(read_finished(path, field).at().shape().calls(), 8);
  FieldDescription other = field;
  other.guidance = 3;
  EXPECT_NE(refusal([&] { read_finished(path, other); }).find("and no other"), std::string::npos);
}

}  // namespace
}  // namespace bespoke
