#include "bespoke/solver/named_solver.h"

#include <gtest/gtest.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "temporary_folder.h"

namespace bespoke {
namespace {

using Names = std::vector<std::string>;

void expect_parts(const std::string& text, const SolverName& expected) {
  const SolverName name = SolverName::parse(text);
  EXPECT_EQ(name.file, expected.file) << text;
  EXPECT_EQ(name.method, expected.method) << text;
  EXPECT_EQ(name.grid, expected.grid) << text;
  EXPECT_EQ(name.schedule, expected.schedule) << text;
  EXPECT_EQ(name.is_file(), !expected.file.empty()) << text;
  EXPECT_EQ(to_string(name), text);  // and back
}

TEST(SolverName, HasAMethodAGridAndASchedule) {
  expect_parts("dpm++2m", {"", "dpm++2m", "", ""});
  expect_parts("euler/quadratic", {"", "euler", "quadratic", ""});
  expect_parts("euler@fm-ot", {"", "euler", "", "fm-ot"});
  expect_parts("euler@sigma0=2", {"", "euler", "", "sigma0=2"});
  expect_parts("unipc3-bh2/lambda-range:from=-4,to=4",
               {"", "unipc3-bh2", "lambda-range:from=-4,to=4", ""});
  expect_parts("midpoint/custom:0,0.5,1@vp:B=20,b=0.1",
               {"", "midpoint", "custom:0,0.5,1", "vp:B=20,b=0.1"});
  expect_parts("ddim@table:a/b.txt", {"", "ddim", "", "table:a/b.txt"});
}

TEST(SolverName, IsAFileWhereItEndsLikeOne) {
  expect_parts("best.solver.json", {"best.solver.json", "", "", ""});
  expect_parts("runs/a@b/best.json", {"runs/a@b/best.json", "", "", ""});
  expect_parts("tableau:heun3.json", {"", "tableau:heun3.json", "", ""});
  expect_parts("tableau:my/heun3.json/karras:rho=5@vp",
               {"", "tableau:my/heun3.json", "karras:rho=5", "vp"});
  expect_parts("multistep:/tmp/ab2.json/uniform-lambda",
               {"", "multistep:/tmp/ab2.json", "uniform-lambda", ""});
}

TEST(SolverName, ListsKeepTheCommasOfGridsAndSchedules) {
  EXPECT_EQ(split_solver_names("euler"), (Names{"euler"}));
  EXPECT_EQ(split_solver_names("euler,rk4"), (Names{"euler", "rk4"}));
  EXPECT_EQ(split_solver_names("euler,unipc3-bh2/lambda-range:from=-3.5,to=4,"
                               "midpoint/custom:0,0.5,1@vp:B=20,b=0.1,x.solver.json"),
            (Names{"euler", "unipc3-bh2/lambda-range:from=-3.5,to=4",
                   "midpoint/custom:0,0.5,1@vp:B=20,b=0.1", "x.solver.json"}));
  EXPECT_EQ(split_solver_names("tableau:a.json/karras:rho=5,sigma_min=0.01,euler@sigma0=2,ddim"),
            (Names{"tableau:a.json/karras:rho=5,sigma_min=0.01", "euler@sigma0=2", "ddim"}));
  EXPECT_EQ(split_solver_names("a.json,b=2.json,multistep:c.json"),
            (Names{"a.json", "b=2.json", "multistep:c.json"}));
  EXPECT_EQ(split_solver_names("ddim/custom:0,.5,1e0,heun"),
            (Names{"ddim/custom:0,.5,1e0", "heun"}));
}

class NamedSolverTest : public ::testing::Test {
 protected:
  SolverFile resolve(const std::string& name, int nfe) const {
    return resolve_solver(SolverName::parse(name), nfe, field_);
  }

  // The message of the error of this kind that resolving ends with.
  std::string message_of(const std::string& name, int nfe, ErrorKind kind) const {
    try {
      resolve(name, nfe);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "no error";
  }

  std::string write(const std::string& name, const std::string& content) const {
    const auto path = folder_.path() / name;
    detail::write_file_atomically(path, content);
    return path.string();
  }

  SchedulePtr vp_ = vp_schedule();
  FieldDescription field_ = {Prediction::noise, vp_, 1.5};
  testing::TemporaryFolder folder_;
};

TEST_F(NamedSolverTest, IsTheCataloguesSolver) {
  EXPECT_TRUE(resolve("dpm++2m", 6).at() == make_solver("dpm++2m", {6, vp_}));
  EXPECT_TRUE(resolve("unipc3-bh2/lambda-range:from=-3.5,to=4", 6).at() ==
              make_solver("unipc3-bh2", {6, vp_, "lambda-range:from=-3.5,to=4"}));
  EXPECT_TRUE(resolve("dpm++3m+lower-order-final/karras", 6).at() ==
              make_solver("dpm++3m", {6, vp_, "karras", true}));
  EXPECT_TRUE(resolve("euler@sigma0=1", 6).at() == make_solver("euler", {6, vp_}));
}

TEST_F(NamedSolverTest, RunsInTheCoordinatesOfAnotherSchedule) {
  EXPECT_TRUE(resolve("midpoint/quadratic@fm-ot", 6).at() ==
              make_solver_via(find_solver("midpoint"), {6, vp_, "quadratic"}, fm_ot_schedule()));
  EXPECT_TRUE(resolve("euler@sigma0=2", 6).at() ==
              make_solver_via(find_solver("euler"), {6, vp_}, preconditioned_schedule(vp_, 2)));
  EXPECT_FALSE(resolve("euler@sigma0=2", 6).at() == make_solver("euler", {6, vp_}));
}

TEST_F(NamedSolverTest, SaysWhatItIsAndWhereItCameFrom) {
  const SolverFile file = resolve("dpm++3m+lower-order-final/karras@fm-ot", 6);
  EXPECT_EQ(file.name, "dpm++3m+lower-order-final/karras@fm-ot");
  EXPECT_EQ(file.field.prediction, Prediction::noise);
  EXPECT_EQ(file.field.guidance, GuidanceWeight(1.5));
  EXPECT_EQ(file.provenance, (nlohmann::json{{"made_by", "catalogue"},
                                             {"solver", "dpm++3m"},
                                             {"grid", "karras"},
                                             {"coordinates", "fm-ot"},
                                             {"lower_order_final", true}}));
  EXPECT_EQ(resolve("edm-heun", 7).provenance["grid"], "karras");  // its own
}

TEST_F(NamedSolverTest, TakesUsersTableausAndRules) {
  const std::string heun = write("heun.json", R"({"a": [[], [1]], "b": [0.5, 0.5], "c": [0, 1]})");
  const std::string ab2 = write("ab2.json", R"({"a": [0, 1], "b": [-0.5, 1.5]})");
  EXPECT_TRUE(resolve("tableau:" + heun + "/quadratic:end=0.9", 6).at() ==
              make_solver("heun", {6, vp_, "quadratic:end=0.9"}));
  EXPECT_EQ(resolve("multistep:" + ab2, 5).at().nfe(), 5);
  const std::string broken = write("broken.json", R"({"a": [[], [1]], "b": [0.5, 0.6]})");
  EXPECT_EQ(message_of("tableau:" + broken, 6, ErrorKind::bad_input).rfind(broken, 0), 0u);
  EXPECT_NE(message_of("tableau:/no/such.json", 6, ErrorKind::bad_input).find("/no/such.json"),
            std::string::npos);
}

TEST_F(NamedSolverTest, ReadsFinishedSolversOfThisScheduleAlone) {
  const SolverFile file = resolve("ddim", 5);
  const std::string path = (folder_.path() / "own.solver.json").string();
  write_solver_file(path, file);
  EXPECT_TRUE(resolve(path, 5).at() == file.at());
  EXPECT_TRUE(resolve(path, 0).at() == file.at());  // as many as it has
  EXPECT_EQ(message_of(path, 6, ErrorKind::bad_input),
            path + ": ddim has no solver of 6 evaluations; it has 5");
  field_.schedule = fm_ot_schedule();
  EXPECT_NE(message_of(path, 5, ErrorKind::bad_input).find("was made for the schedule"),
            std::string::npos);
}

TEST_F(NamedSolverTest, ChoosesAmongFinishedSolversByNfe) {
  SolverFile file = resolve("ddim", 5);
  file.put({resolve("euler", 7).at(), {{"note", "seven"}}});
  const std::string path = (folder_.path() / "two.solver.json").string();
  write_solver_file(path, file);
  EXPECT_TRUE(resolve(path, 5).at() == file.at(5));
  EXPECT_TRUE(resolve(path, 7).at() == file.at(7));
  EXPECT_EQ(resolve(path, 7).provenance_of().more["note"], "seven");
  EXPECT_EQ(resolve(path, 7).provenance_of().made_by, "catalogue");
  EXPECT_EQ(message_of(path, 0, ErrorKind::usage),
            path + ": ddim holds solvers of 5, 7 evaluations; choose one of them");
  EXPECT_EQ(message_of(path, 6, ErrorKind::bad_input),
            path + ": ddim has no solver of 6 evaluations; it has 5, 7");
}

TEST_F(NamedSolverTest, SaysWhatIsWrong) {
  const auto usage = [&](const std::string& name) { return message_of(name, 6, ErrorKind::usage); };
  EXPECT_EQ(usage("euler@"), "'euler@' names no schedule after its @");
  EXPECT_EQ(usage("euler/"), "'euler/' names no grid after its /");
  EXPECT_EQ(usage("euler/@vp"), "'euler/@vp' names no grid after its /");
  EXPECT_NE(usage("eulr").find("did you mean 'euler'?"), std::string::npos);
  EXPECT_NE(usage("euler/karas").find("did you mean 'karras'?"), std::string::npos);
  EXPECT_NE(usage("euler@cosin").find("did you mean 'cosine'?"), std::string::npos);
  EXPECT_NE(usage("euler/karras:ro=3").find("rho"), std::string::npos);
  EXPECT_EQ(usage("euler@sigma0=-1"), "sigma0 must be positive, found -1");
  EXPECT_NE(usage("euler@sigma0=x").find("sigma0"), std::string::npos);
  EXPECT_NE(usage("").find("unknown solver ''"), std::string::npos);
}

}  // namespace
}  // namespace bespoke
