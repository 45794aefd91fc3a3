#include "bespoke/solver/field_differences.h"

#include <gtest/gtest.h>

#include "bespoke/solver/catalogue.h"

namespace bespoke {
namespace {

using Clauses = std::vector<std::string>;

class FieldDifferencesTest : public ::testing::Test {
 protected:
  FieldDifferencesTest() {
    file_.name = "bns";
    file_.field = {Prediction::data, vp_, 0};
    file_.field.time = {{"convention", "index"}, {"levels", 1000}};
    file_.put({make_solver("ddim", {4, vp_, ""})});
    file_.provenance = {{"made_by", "distil"}};
  }

  Clauses doubtful(const FieldDescription& field) const {
    const FieldDifferences found = field_differences(file_, field);
    EXPECT_EQ(found.impossible, Clauses());
    return found.doubtful;
  }

  SchedulePtr vp_ = vp_schedule();
  SolverFile file_;
};

TEST_F(FieldDifferencesTest, ThereAreNoneOnTheFieldItWasMadeFor) {
  EXPECT_EQ(doubtful(file_.field), Clauses());
  FieldDescription unknown = file_.field;
  unknown.time = nullptr;
  EXPECT_EQ(doubtful(unknown), Clauses());
  // What a card leaves out is said all the same.
  FieldDescription longer = file_.field;
  longer.time = {{"convention", "index"}, {"levels", 1000}, {"scale", 1}, {"integer", false}};
  EXPECT_EQ(doubtful(longer), Clauses());
}

TEST_F(FieldDifferencesTest, EachIsNamed) {
  FieldDescription field = file_.field;
  field.prediction = Prediction::noise;
  EXPECT_EQ(doubtful(field),
            Clauses{"was made for data prediction, this model has noise prediction"});
  field = file_.field;
  field.guidance = 2;
  EXPECT_EQ(doubtful(field), Clauses{"was made for guidance w = 0 (guidance_scale 1), this run has "
                                     "guidance w = 2 (guidance_scale 3)"});
  field.prediction = Prediction::velocity;
  field.time = {{"convention", "sigma"}};
  const Clauses all = doubtful(field);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2],
            "was made for a network that is given time as {\"convention\":\"index\",\"levels\":"
            "1000}, this one is given it as {\"convention\":\"sigma\"}");
}

TEST_F(FieldDifferencesTest, AnotherClipIsNamed) {
  FieldDescription field = file_.field;
  field.clip = Clip{-1, 1};
  EXPECT_EQ(doubtful(field), Clauses{"was made for data that is not clipped, this run has data "
                                     "clipped to [-1, 1]"});
  file_.field.clip = Clip{-1, 1};
  EXPECT_EQ(doubtful(field), Clauses());
}

TEST_F(FieldDifferencesTest, AnotherPathIsImpossible) {
  FieldDescription field = file_.field;
  field.schedule = cosine_schedule();
  const FieldDifferences found = field_differences(file_, field);
  ASSERT_EQ(found.impossible.size(), 1u);
  EXPECT_EQ(found.impossible[0].rfind("was made for the schedule {", 0), 0u);
}

TEST_F(FieldDifferencesTest, ASolverOfTheCatalogueKnowsThePathAlone) {
  file_.provenance = {{"made_by", kMadeByCatalogue}};
  FieldDescription field = {Prediction::velocity, vp_, 3};
  field.time = {{"convention", "sigma"}};
  EXPECT_EQ(doubtful(field), Clauses());
}

}  // namespace
}  // namespace bespoke
