#include "bespoke/jobs/pair_maker.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/jobs/training_pairs.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

OpenModel mixture_with_classes(const std::string& guidance = "0") {
  ModelRequest request;
  request.name = "analytic:mixture:dim=4,classes=3";
  request.guidance = parse_guidance(guidance, false, "guidance");
  return open_model(request);
}

PairRequest small_request() {
  PairRequest request;
  request.plan.train.count = 6;
  request.plan.validation.count = 4;
  request.plan.shard_size = 2;
  request.plan.tolerances = {1e-4, 1e-4};
  return request;
}

void expect_same(const Pairs& one, const Pairs& other) {
  EXPECT_TRUE(torch::equal(one.x0, other.x0));
  EXPECT_TRUE(torch::equal(one.x1, other.x1));
  ASSERT_EQ(one.conditions.size(), other.conditions.size());
  for (const auto& [name, rows] : one.conditions) {
    EXPECT_TRUE(torch::equal(rows, other.conditions.at(name))) << name;
  }
}

TEST(PairMaker, MakesTheSameForAFolderAndInMemory) {
  const testing::TemporaryFolder folder;
  const OpenModel open = mixture_with_classes("0-2");
  const PairMaker maker(open, small_request(), {});
  maker.fill(folder.path() / "pairs");
  const PairOwner owner = {open.identity(), open.guidance};
  for (const Split split : {Split::train, Split::validation}) {
    const Pairs kept = read_pairs(folder.path() / "pairs", split, owner);
    expect_same(maker.make(split), kept);
    EXPECT_TRUE(kept.conditions.count("class") > 0);
  }
}

// As if there were so many more training pairs.
TEST(PairMaker, MatchesSamplesThatFollowTheTrainingPairs) {
  const OpenModel open = mixture_with_classes();
  PairRequest request = small_request();
  request.matching = 3;
  request.matching_tolerances = request.plan.tolerances;
  const Pairs matching = PairMaker(open, request, {}).make_matching();
  PairRequest more = small_request();
  more.plan.train.count = 9;
  const Pairs all = PairMaker(open, more, {}).make(Split::train);
  ASSERT_EQ(matching.count(), 3);
  EXPECT_TRUE(torch::equal(matching.x0, all.x0.slice(0, 6)));
  EXPECT_TRUE(
      torch::equal(matching.conditions.at("class"), all.conditions.at("class").slice(0, 6)));
}

TEST(PairMaker, LeavesOutWhatIsNotFiniteWithANote) {
  const OpenModel open = mixture_with_classes();
  Pairs pairs = PairMaker(open, small_request(), {}).make(Split::train);
  pairs.x1[2][1] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::string> notes;
  Execution execution;
  execution.on_note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_EQ(intact_pairs(pairs, "train", execution).count(), 5);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("train sample 2 left out"), std::string::npos) << notes[0];
}

TEST(TrainingPairs, SayWhatTheyAreAndWhatTheyCost) {
  PairRequest request = small_request();
  request.matching = 2;
  const TrainingPairs pairs = make_training_pairs(mixture_with_classes(), request, {});
  EXPECT_EQ(pairs.provenance["train"], 6);
  EXPECT_EQ(pairs.provenance["validation"], 4);
  EXPECT_EQ(pairs.provenance["matching"], 2);
  EXPECT_EQ(pairs.provenance["conditions"], "class uniform over 3 classes");
  EXPECT_EQ(pairs.matching->count(), 2);
  const auto sum = [](const Pairs& some) { return some.evaluations.sum().item<int64_t>(); };
  EXPECT_EQ(pairs.reference_evaluations,
            sum(pairs.train) + sum(*pairs.validation) + sum(*pairs.matching));
  EXPECT_NE(pairs.train.trajectories, nullptr);
}

TEST(PairMaker, RefusesConditionsTheModelDoesNotHave) {
  PairRequest request = small_request();
  request.conditions = {"colour=1"};
  EXPECT_THROW(PairMaker(mixture_with_classes(), request, {}), Error);
  request.conditions = {"class=1", "class=2"};
  EXPECT_THROW(PairMaker(mixture_with_classes(), request, {}), Error);
}

TEST(OpenModel, AnAnalyticModelIsWhatItsNameSays) {
  ModelRequest request;
  request.name = "analytic:mixture:dim=3,prediction=data@vp:B=10,b=0.2";
  const OpenModel open = open_model(request);
  EXPECT_EQ(open.field().schedule->describe(), vp_schedule(10, 0.2)->describe());
  EXPECT_EQ(open.field().prediction, Prediction::data);
  for (const std::string name : {"analytic:mixtur", "analytic:mixture:dims=3",
                                 "analytic:mixture:prediction=nois", "analytic:mixture@vpp"}) {
    request.name = name;
    EXPECT_THROW(open_model(request), Error) << name;
  }
}

}  // namespace
}  // namespace bespoke
