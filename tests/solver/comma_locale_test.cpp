#include <gtest/gtest.h>
#include <stdlib.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>

#include "bespoke/base/spec.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/c_header.h"
#include "bespoke/solver/exported_text.h"
#include "bespoke/solver/named_solver.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

// A host program, such as Python after locale.setlocale, may be one that writes 0,5 for a half. The
// locale is made here, since few machines have it.
class CommaLocale : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = folder_.path().string();
    const std::string make =
        "localedef -i de_DE -f UTF-8 '" + folder + "/de_DE.UTF-8' >/dev/null 2>&1";
    if (std::system(make.c_str()) != 0) GTEST_SKIP() << "no localedef, or no sources for it";
    ::setenv("LOCPATH", folder.c_str(), 1);
    ASSERT_NE(std::setlocale(LC_ALL, "de_DE.UTF-8"), nullptr);
    char half[8];
    std::snprintf(half, sizeof(half), "%.1f", 0.5);
    ASSERT_STREQ(half, "0,5");
  }
  void TearDown() override {
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
  }

  testing::TemporaryFolder folder_;
};

SolverFile half_steps() {
  SolverFile file = resolve_solver(SolverName::parse("heun/quadratic:end=0.95"), 6,
                                   {Prediction::noise, make_schedule("ddpm-linear"), 0.5});
  file.name = "half steps";
  return file;
}

std::string all_texts(const SolverFile& file) {
  return to_json_text(file) + c_header(file) + markdown_text(file, 6) + latex_text(file, 6) +
         sigmas_text(file) + diffusers_config_text(file) + to_string(file.field.guidance);
}

TEST_F(CommaLocale, NothingIsReadOrWrittenInAnotherWay) {
  const std::string here = all_texts(half_steps());
  EXPECT_TRUE(reads_as_number("0.5"));
  EXPECT_EQ(parse_guidance("0.5-1.5", false, "w"), GuidanceWeight(GuidanceRange{0.5, 1.5}));
  EXPECT_EQ(split_solver_names("euler/custom:0,0.25,1,heun").size(), 2u);
  EXPECT_EQ(Spec::parse("vp:B=20.5").number("B", 0), 20.5);
  EXPECT_EQ(to_json_text(parse_solver_file(to_json_text(half_steps()), "x")),
            to_json_text(half_steps()));
  std::setlocale(LC_ALL, "C");
  EXPECT_EQ(here, all_texts(half_steps()));
}

}  // namespace
}  // namespace bespoke
