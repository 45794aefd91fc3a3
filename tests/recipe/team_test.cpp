// What several processes do together, with threads in their place.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/model/mixture.h"
#include "bespoke/recipe/distill_model.h"
#include "bespoke/recipe/pair_store.h"
#include "support.h"
#include "temporary_folder.h"
#include "thread_team.h"

namespace bespoke {
namespace {

using testing::ThreadTeam;

class TeamWork : public ::testing::Test {
 protected:
  const ModelPtr model_ =
      mixture_model(testing::small_mixture(), fm_ot_schedule(), Prediction::velocity);

  PairSource source(int64_t count, int64_t trajectories) const {
    PairSource source;
    source.count = count;
    source.trajectories = trajectories;
    source.tolerances = {1e-6, 1e-6};
    return source;
  }
};

TEST_F(TeamWork, MakesTheSamePairs) {
  const Pairs one = make_pairs(model_, source(7, 4));
  for (const int members : {2, 3, 9}) {
    ThreadTeam(members).run([&](Team& team) {
      PairRun run;
      run.team = &team;
      const Pairs pairs = make_pairs(model_, source(7, 4), run);
      EXPECT_TRUE(torch::equal(pairs.x0, one.x0));
      EXPECT_LT(testing::relative_error(pairs.x1, one.x1), 1e-12);
      EXPECT_TRUE(torch::equal(pairs.evaluations, one.evaluations));
      ASSERT_EQ(pairs.trajectories->count(), 4);
      EXPECT_LT(testing::relative_error(pairs.trajectories->state_at(0.4),
                                        one.trajectories->state_at(0.4)),
                1e-12);
    });
  }
}

TEST_F(TeamWork, NamesTheSampleThatFailsWhoeverHasIt) {
  PairSource broken = source(6, 0);
  broken.tolerances = {1e-300, 1e-300};  // that no step can keep
  ThreadTeam(2).run([&](Team& team) {
    std::vector<int64_t> named;
    PairRun run;
    run.team = &team;
    run.on_given_up = [&](int64_t pair, const std::string&) { named.push_back(pair); };
    const Pairs pairs = make_pairs(model_, broken, run);
    EXPECT_EQ(named, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_TRUE(pairs.x1.isnan().all().item<bool>());
  });
}

TEST_F(TeamWork, FillsOneFolder) {
  testing::TemporaryFolder folder;
  PairPlan plan;
  plan.train = {10, 1};
  plan.validation = {5, 2};
  plan.shard_size = 4;
  plan.trajectories = 6;
  plan.owner.model = {{"name", "mixture"}};
  plan.conditions = "none";
  const auto none = [](Split, int64_t, int64_t) { return Conditions(); };
  make_pairs(folder.path() / "one", plan, model_, none);
  ThreadTeam(3).run([&](Team& team) {
    PairRun run;
    run.team = &team;
    const PairReport report = make_pairs(folder.path() / "three", plan, model_, none, run);
    EXPECT_EQ(report.made, 15);
    EXPECT_EQ(make_pairs(folder.path() / "three", plan, model_, none, run).made, 0);
  });
  const Pairs one = read_pairs(folder.path() / "one", Split::train, plan.owner);
  const Pairs three = read_pairs(folder.path() / "three", Split::train, plan.owner);
  EXPECT_LT(testing::relative_error(three.x1, one.x1), 1e-12);
  EXPECT_EQ(read_pair_manifest(folder.path() / "three").evaluations,
            read_pair_manifest(folder.path() / "one").evaluations);
}

TEST_F(TeamWork, FindsTheSameSolver) {
  ModelDistillOptions options;
  options.nfe = 4;
  options.training_plan = {16, 1};
  options.validation_plan = {8, 2};
  options.iterations = 2;
  const DistillSummary one = distill(model_, options);
  ThreadTeam(2).run([&](Team& team) {
    ModelDistillOptions own = options;
    own.team = &team;
    const DistillSummary two = distill(model_, own);
    EXPECT_NEAR(two.validation_psnr, one.validation_psnr, 1e-6);
    for (size_t i = 0; i < one.solver.a.size(); ++i) {
      EXPECT_NEAR(two.solver.a[i], one.solver.a[i], 1e-9);
      EXPECT_NEAR(two.solver.times[i], one.solver.times[i], 1e-9);
    }
    EXPECT_EQ(two.training.forwards, one.training.forwards);
  });
}

TEST_F(TeamWork, StopsTogether) {
  ThreadTeam(2).run([&](Team& team) {
    ModelDistillOptions options;
    options.nfe = 3;
    options.training_plan = {8, 1};
    options.validation_plan = {8, 2};
    options.team = &team;
    // One member is told to stop; the other would go on.
    options.on_iteration = [&](const DistillProgress&, const DistillState&) {
      return team.rank() == 1 ? Verdict::stop : Verdict::go_on;
    };
    const DistillSummary summary = distill(model_, options);
    EXPECT_EQ(summary.ending, Ending::stopped);
    EXPECT_EQ(summary.iterations, 1);
  });
}

}  // namespace
}  // namespace bespoke
