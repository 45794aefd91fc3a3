#include "bespoke/jobs/compare_job.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/jobs/comparison_report.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

// Every field another than by default, as far as they go together.
CompareJob unusual_job(const std::string& real) {
  CompareJob job;
  job.solvers = {"rk4", "best"};
  job.nfes = {6, 3};
  job.samples.conditions = {"class=2", "text=one two"};
  job.samples.count = 5;
  job.samples.seed = 3;
  job.samples.seeds = "4-8";
  job.samples.noise = "noise.npy";
  job.tolerance = 0.125;
  job.of_decoded = true;
  job.features = {"features.pt", "0,1", 32};
  job.real = real;
  job.judges = {"judge", "other"};
  job.equal_up_to = 7;
  return job;
}

TEST(CompareJob, ReadsBackAsItWasWritten) {
  const testing::TemporaryFolder folder;
  const std::string real = (folder.path() / "real.npy").string();
  detail::write_file_atomically(real, "numbers");
  const nlohmann::json json = to_json(unusual_job(real)), usual = to_json(CompareJob());
  EXPECT_EQ(to_json(parse_compare_job(json, "text")), json);
  EXPECT_EQ(to_json(parse_compare_job(usual, "text")), usual);
  ASSERT_EQ(json.size(), usual.size());
  for (const auto& [name, value] : json.items()) EXPECT_NE(usual.at(name), value) << name;
}

TEST(CompareJob, RefusesWhatIsNotAJob) {
  const auto kind_of = [](const nlohmann::json& json) {
    try {
      parse_compare_job(json, "job.json");
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("job.json", 0), 0u) << error.what();
      return error.kind();
    }
    return ErrorKind::failed;
  };
  nlohmann::json json = to_json(CompareJob());
  json["nfes"] = "eight";
  EXPECT_EQ(kind_of(json), ErrorKind::bad_input);
  json = to_json(CompareJob());
  json["slovers"] = json["solvers"];
  EXPECT_EQ(kind_of(json), ErrorKind::bad_input);
  json = to_json(CompareJob());
  json.erase("tolerance");
  EXPECT_EQ(kind_of(json), ErrorKind::bad_input);
}

// As programs may fill one in.
TEST(CompareJob, ChecksItself) {
  const auto refuses = [](auto change) {
    CompareJob job;
    change(job);
    EXPECT_THROW(job.validate(), Error);
    EXPECT_THROW(parse_compare_job(to_json(job), "text"), Error);
  };
  refuses([](CompareJob& job) { job.nfes.clear(); });
  refuses([](CompareJob& job) { job.nfes = {4, 0}; });
  refuses([](CompareJob& job) { job.solvers.clear(); });
  refuses([](CompareJob& job) { job.equal_up_to = -1; });
  for (const nlohmann::json& value : {nlohmann::json(4.5), nlohmann::json(true)}) {
    nlohmann::json json = to_json(CompareJob());
    json["equal_up_to"] = value;
    EXPECT_THROW(parse_compare_job(json, "text"), Error) << value;
  }
}

TEST(CompareJob, DistancesToRealDataNeedFeatures) {
  CompareJob job;
  job.real = "real.npy";
  EXPECT_THROW(job.validate(), Error);
}

class ComparisonOfModel : public ::testing::Test {
 protected:
  ComparisonOfModel() {
    job_.solvers = {"euler", "midpoint"};
    job_.nfes = {4, 6};
    job_.samples.count = 6;
    request_.name = "analytic:mixture:dim=4";
  }

  ModelComparison compared(const TensorCache& cache) const {
    // Everything is found, handed on and then measured: nothing refers to where it was before.
    PreparedComparison prepared = prepare_comparison(job_, open_model(request_), cache, {});
    return run_comparison(std::move(prepared), 2, {});
  }

  const testing::TemporaryFolder folder_;
  CompareJob job_;
  ModelRequest request_;
};

TEST_F(ComparisonOfModel, MeasuresWhatTheProgramPrints) {
  const ModelComparison comparison = compared({});
  ASSERT_EQ(comparison.figures.rows.size(), 4u);
  EXPECT_EQ(comparison.figures.rows[3].name, "midpoint");
  EXPECT_EQ(comparison.figures.rows[3].nfe, 6);
  for (const auto& row : comparison.figures.rows) EXPECT_TRUE(std::isfinite(row.psnr()));
  EXPECT_EQ(comparison.figures.rows[0].samples.size(0), 2);
  EXPECT_EQ(comparison.figures.columns.front().title, "PSNR in dB (peak-to-peak 2, sample space)");
  EXPECT_FALSE(comparison.cached_reference);
  const Report report = make_report(comparison, {"a command"});
  EXPECT_EQ(report.rows.size(), 4u);
  EXPECT_EQ(report.commands, std::vector<std::string>{"a command"});
}

TEST_F(ComparisonOfModel, FindsTheReferenceInTheCache) {
  const TensorCache cache(folder_.path() / "cache");
  const ModelComparison first = compared(cache), second = compared(cache);
  EXPECT_FALSE(first.cached_reference);
  EXPECT_TRUE(second.cached_reference);
  EXPECT_EQ(first.figures.rows[0].psnr(), second.figures.rows[0].psnr());
  job_.tolerance = 1e-4;
  EXPECT_FALSE(compared(cache).cached_reference);
}

TEST_F(ComparisonOfModel, FindsMistakesBeforeItMeasures) {
  job_.of_decoded = true;
  EXPECT_THROW(prepare_comparison(job_, open_model(request_), {}, {}), Error);
  job_.of_decoded = false;
  job_.samples.conditions = {"class=1"};
  EXPECT_THROW(prepare_comparison(job_, open_model(request_), {}, {}), Error);
}

}  // namespace
}  // namespace bespoke
