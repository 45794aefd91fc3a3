#include "bespoke/jobs/distill_job.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/jobs/run_distillation.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

// Every field another than by default, as far as they go together.
DistillJob unusual_job() {
  DistillJob job;
  job.nfes = {3, 5};
  job.unit_start_scale = true;
  job.times = parse_time_rounding("integer:50");
  job.of_decoded = true;
  job.match = Match::both;
  job.match_weight = 0.125;
  job.match_samples = 77;
  job.match_groups = "class";
  job.starts = {"euler@sigma0=2", "midpoint"};
  job.method = Method::direct;
  job.direct = parse_direct_options("smoothing=0.3,attempts=2,judges=5");
  job.iterations = 9;
  job.batch = 11;
  job.most_calls = 1300;
  return job;
}

ErrorKind kind_of(const nlohmann::json& json) {
  try {
    parse_distill_job(json, "options.json");
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("options.json", 0), 0u) << error.what();
    return error.kind();
  }
  return ErrorKind::failed;
}

TEST(DistillJob, ReadsBackAsItWasWritten) {
  const DistillJob job = unusual_job();
  const DistillJob back = parse_distill_job(to_json(job), "text");
  EXPECT_EQ(to_json(back), to_json(job));
  EXPECT_EQ(back.nfes, job.nfes);
  EXPECT_EQ(back.times.levels, 50);
  EXPECT_EQ(back.starts, job.starts);
  EXPECT_EQ(back.method, Method::direct);
  EXPECT_EQ(back.direct.attempts, 2);
  EXPECT_EQ(back.direct.smoothing, 0.3);
  EXPECT_EQ(back.most_calls, 1300);
  DistillJob guided;
  guided.nfes = {0};
  guided.network_calls = 12;
  EXPECT_EQ(parse_distill_job(to_json(guided), "text").network_calls, 12);
  guided.family = "bst";
  EXPECT_EQ(parse_distill_job(to_json(DistillJob()), "text").family, "bns");
}

// What is left out of the JSON would not be compared when a run is resumed.
TEST(DistillJob, WritesEveryFieldThatDiffers) {
  const nlohmann::json usual = to_json(DistillJob()), unusual = to_json(unusual_job());
  for (const auto& [name, value] : unusual.items()) {
    const bool same = name == "family" || name == "network_calls";
    EXPECT_EQ(usual.at(name) == value, same) << name;
  }
  EXPECT_EQ(usual.size(), 16u) << "a field was added: give it another value in unusual_job()";
}

TEST(DistillJob, RefusesWhatIsNoJob) {
  nlohmann::json json = to_json(DistillJob());
  json["iteratons"] = 3;
  EXPECT_EQ(kind_of(json), ErrorKind::bad_input);
  json = to_json(DistillJob());
  json.erase("starts");
  EXPECT_EQ(kind_of(json), ErrorKind::bad_input);
  json = to_json(DistillJob());
  json["nfes"] = "eight";
  EXPECT_EQ(kind_of(json), ErrorKind::bad_input);
  json = to_json(DistillJob());
  json["family"] = "bnss";
  EXPECT_EQ(kind_of(json), ErrorKind::bad_input);
}

// As programs may fill one in.
TEST(DistillJob, ChecksItself) {
  for (const std::vector<int>& nfes :
       std::vector<std::vector<int>>{{}, {0}, {8, 4}, {4, 4}, {-2}}) {
    DistillJob job;
    job.nfes = nfes;
    EXPECT_THROW(job.validate(), Error) << nfes.size();
  }
  for (const nlohmann::json& value : {nlohmann::json(4.5), nlohmann::json(true)}) {
    nlohmann::json json = to_json(DistillJob());
    json["iterations"] = value;
    EXPECT_THROW(parse_distill_job(json, "text"), Error) << value;
  }
}

TEST(DistillJob, FindsOptionsForAModel) {
  ModelRequest request;
  request.name = "analytic:mixture:dim=4,prediction=noise@vp";
  const OpenModel open = open_model(request);
  DistillJob job;
  job.starts = {"midpoint"};
  job.iterations = 3;
  const ModelDistillOptions options = distill_options(job, open, {}, 4, {});
  EXPECT_EQ(options.nfe, 4);
  EXPECT_EQ(options.field.schedule->name(), "vp");
  EXPECT_EQ(options.field.prediction, Prediction::noise);
  ASSERT_EQ(options.starts.size(), 1u);
  EXPECT_EQ(options.starts[0].name, "midpoint");
  EXPECT_EQ(options.iterations, 3);
  job.network_calls = 8;
  EXPECT_THROW(distill_options(job, open, {}, 4, {}), Error) << "no guidance to build in";
}

// As the program does it: a folder that is refused, gone on with, and held to its job.
TEST(RunDistillation, LeavesItsSolversInAFolder) {
  const testing::TemporaryFolder folder;
  ModelRequest wanted;
  wanted.name = "analytic:mixture:dim=4";
  wanted.precision = "fp64";
  const OpenModel open = open_model(wanted);
  const Execution execution = execution_on(open);
  DistillationRequest request;
  request.job.nfes = {3, 4};
  request.job.method = Method::fit;
  request.training.samples = 16;
  request.training.tolerance = 1e-4;
  request.folder = folder.path() / "run";
  request.command = "a test";
  int starts = 0;
  DistillationEvents events;
  events.on_start = [&](const std::string&, const StartState&, const Counts&,
                        const SolverShape& shape) {
    EXPECT_GE(shape.nfe, 3);
    ++starts;
  };
  const DistillationResult result = run_distillation(request, open, execution, events);
  ASSERT_EQ(result.solvers.size(), 2u);
  EXPECT_EQ(starts, 2);
  EXPECT_EQ(result.training_pairs, 16);
  const SolverFile file = read_solver_file(result.file);
  EXPECT_TRUE(file.at(4) == result.solvers[1].solver);
  EXPECT_EQ(file.provenance_of(3).command, "a test");

  DistillationRequest unknown = request;
  unknown.folder = folder.path() / "unknown";
  unknown.job.family = "bnss";
  EXPECT_THROW(run_distillation(unknown, open, execution), Error);
  EXPECT_FALSE(std::filesystem::exists(unknown.folder)) << "the mistake was found before";

  EXPECT_THROW(run_distillation(request, open, execution), Error) << "it was not to be resumed";
  request.resume = true;
  const DistillationResult again = run_distillation(request, open, execution, events);
  EXPECT_TRUE(again.solvers[1].solver == result.solvers[1].solver);
  EXPECT_EQ(starts, 2) << "both had ended";
  request.job.unit_start_scale = true;
  EXPECT_THROW(run_distillation(request, open, execution), Error) << "another job";
}

}  // namespace
}  // namespace bespoke
