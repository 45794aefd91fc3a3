// The program as a user meets it: what it prints, where, and its exit code.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "app/command_line.h"
#include "bespoke/base/file.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

using namespace detail;
namespace {

// The commands that a help lists: each begins a line, two spaces in, under "Subcommands:".
std::vector<std::string> commands_in(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 3 || line.rfind("  ", 0) != 0 || line[2] == ' ') continue;
    names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

// Threads that spin while they wait take the cores from whatever else runs beside. OpenMP says by
// itself what it was told before it was loaded.
TEST_F(CommandLine, ThreadsSoonSleepWhileTheyWait) {
  const auto environment_under = [&](const std::string& variables) {
    const std::string command =
        "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT OMP_DISPLAY_ENV=verbose " + variables +
        " '" BESPOKE_BINARY "' --version 2>&1";
    return run_shell(command);
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string usual = environment_under("");
  if (!has(usual, "GOMP_SPINCOUNT")) GTEST_SKIP() << "another OpenMP than GCC's:\n" << usual;
  EXPECT_TRUE(has(usual, "OMP_WAIT_POLICY = 'PASSIVE'")) << usual;
  EXPECT_TRUE(has(usual, "GOMP_SPINCOUNT = '5000'")) << usual;
  EXPECT_TRUE(has(usual, "\nbespoke ")) << usual;
  // What the user says, holds.
  EXPECT_TRUE(has(environment_under("OMP_WAIT_POLICY=active"), "OMP_WAIT_POLICY = 'ACTIVE'"));
  EXPECT_TRUE(has(environment_under("GOMP_SPINCOUNT=77"), "GOMP_SPINCOUNT = '77'"));
}

TEST_F(CommandLine, AStderrThatCannotBeWrittenCostsNothing) {
  const std::string command = "distill --model analytic:mixture:dim=4 --nfe 2 --samples 16 -o ";
  ASSERT_EQ(run_with(command + "whole", ">out.txt 2>err.txt"), 0);
  const auto solver_in = [&](const std::string& name) {
    const auto file = read_solver_file(folder_ / name / "bns.solver.json");
    return file.at();
  };
  const std::vector<std::string> redirections = {">out.txt 2>/dev/full", ">out.txt 2>&-",
                                                 "2>&1 >out.txt | true; exit 0"};
  for (size_t i = 0; i < redirections.size(); ++i) {
    const std::string name = "run" + std::to_string(i);
    EXPECT_EQ(run_with(command + name, redirections[i]), 0) << redirections[i];
    EXPECT_TRUE(solver_in(name) == solver_in("whole")) << redirections[i];
  }
  EXPECT_EQ(run_with("show absent.json", "2>/dev/full"), 3);
  EXPECT_EQ(run_with("show absent.json", "2>&-"), 3);
  EXPECT_EQ(run_with("sample --nfe 0 -o x", "2>/dev/full"), 2);
  EXPECT_EQ(run_with("solvers", ">/dev/full 2>err.txt"), 1);
  EXPECT_EQ(run_with("solvers", ">&- 2>err.txt"), 1);
}

// Paths are bytes; JSON is UTF-8. Neither may cost finished work.
TEST_F(CommandLine, NamesThatAreNoUtf8LoseNothing) {
  const std::string odd = "od\xff\xfe";
  const std::string model = "--model analytic:mixture:dim=4 ";
  const std::string distill = "distill " + model + "--nfe 2 --samples 16 -o '" + odd + "'";
  const Outcome distilled = run(distill);
  EXPECT_EQ(distilled.code, 0) << distilled.err;
  const std::string solver = odd + "/bns.solver.json";
  EXPECT_EQ(read_solver_file(folder_ / solver).at().nfe(), 2);
  EXPECT_EQ(run(distill + " --resume").code, 0);
  EXPECT_EQ(run("pairs " + model + "--count 3 --validation 2 -o '" + odd + "-pairs'").code, 0);
  EXPECT_EQ(run("solver euler --nfe 2 -o '" + odd + ".json'").code, 0);
  EXPECT_EQ(
      run("sample " + model + "--count 2 --solver '" + solver + "' -o '" + odd + "-out'").code, 0);
  EXPECT_EQ(run("compare " + model + "--count 4 --nfe 2 --format json --solvers '" + solver +
                "' --report '" + odd + ".html'")
                .code,
            0);
}

TEST_F(CommandLine, WhatReachesTheTerminalIsPlainAndShort) {
  const Outcome control = run("show '\x1b[31mred.json'");
  EXPECT_EQ(control.code, 3);
  EXPECT_EQ(control.err.find('\x1b'), std::string::npos) << control.err;
  EXPECT_NE(control.err.find("\\x1b[31mred.json"), std::string::npos) << control.err;
  write_file_atomically(folder_ / "long.json",
                        R"({"format": ")" + std::string(180000, 'f') + R"(", "version": 1})");
  for (const auto& command :
       std::vector<std::string>{"show long.json", "show '" + std::string(200, 'n') + "/x'"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    EXPECT_LE(outcome.err.size(), 301u) << outcome.err;
  }
  write_file_atomically(folder_ / "broken.json", "{\n \"format\": }");
  expect_failure("show broken.json", 3, "not a JSON file (line 2, column 12)");
  write_file_atomically(folder_ / "deep.json", std::string(100000, '['));
  expect_failure("show deep.json", 3, "levels deep");
  expect_failure("sample --threads 1000000 -o x", 2, "--threads must be from 0 to 1024");
}

TEST_F(CommandLine, CheckWarnsThatAModelIsAProgram) {
  EXPECT_NE(run("check --help").out.find("model file is a program"), std::string::npos);
}

TEST_F(CommandLine, ReadsOnlyFilesThatEnd) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("loop", (folder_ / "loop").c_str()), 0);
  const std::string overlong(5000, 'n');
  for (const auto& path : std::vector<std::string>{"/dev/zero", "pipe", "loop", ".", overlong}) {
    for (const std::string command : {"show ", "check "}) {
      const Outcome outcome = run(command + path);
      EXPECT_EQ(outcome.code, 3) << command << path.substr(0, 20) << outcome.err;
      EXPECT_LE(outcome.err.size(), 301u) << outcome.err;
    }
  }
}

TEST_F(CommandLine, NumbersAreTakenAsTheyAreOrRefused) {
  const std::string sample = "sample --count 1 -o x ";
  expect_failure("sample --nfe 0 -o x", 2, "--nfe");
  expect_failure("sample --count 0 -o x", 2, "--count");
  expect_failure(sample + "--seed 9223372036854775808", 2, "too large");
  expect_failure(sample + "--solver reference --tolerance inf", 2, "must be finite");
  expect_failure(sample + "--solver reference --tolerance nan", 2, "must be finite");
  expect_failure(sample + "--seeds 9223372036854775806-9223372036854775808", 2, "--seeds");
  expect_failure("sample --seeds=-5 -o x", 2, "must not be negative");
  expect_failure("compare --nfe 0", 2, "NFE must be from 1");
  expect_failure("pairs --tolerance inf -o x", 2, "must be finite");
  expect_failure("pairs --seed 9223372036854775807 -o x", 2, "give a --validation-seed");
  expect_failure("pairs --seed -9223372036854775809 -o x", 2, "too large");
  for (const char* name : {"--iterations", "--train-batch", "--calls", "--samples"}) {
    expect_failure(std::string("distill --nfe 4 -o x ") + name + " 0", 2, name);
  }
  EXPECT_FALSE(fs::exists(folder_ / "x"));
  const Outcome last = run("sample --nfe 2 --seeds 9223372036854775806-9223372036854775807 -o y");
  EXPECT_EQ(last.code, 0) << last.err;
}

TEST_F(CommandLine, HelpShowsExamplesAndSucceeds) {
  const std::string introduction = run("--help").out;
  EXPECT_LE(std::count(introduction.begin(), introduction.end(), '\n'), 30) << "one screen";
  const std::vector<std::string> commands = commands_in(introduction);
  EXPECT_GE(commands.size(), 10u) << introduction;
  for (const std::string& command : commands) {
    const Outcome outcome = run(command + " --help");
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_NE(outcome.out.find("Examples:"), std::string::npos) << command;
  }
  EXPECT_EQ(run("--version").out.rfind("bespoke ", 0), 0u);
}

TEST_F(CommandLine, TrainingIsAProgramOfItsOwn) {
  expect_failure("train --data photos -o x", 2, "write 'bespoke-train transformer'");
  EXPECT_EQ(run_with("progressive --model m.json -o x", ">out.txt 2>err.txt"), 2);
  EXPECT_NE(read_file(folder_ / "err.txt").find("write 'bespoke-train progressive'"),
            std::string::npos);
  const std::string help = run_shell("'" BESPOKE_TRAIN_BINARY "' --help");
  const std::vector<std::string> commands = commands_in(help);
  EXPECT_EQ(commands.size(), 6u) << help;
  for (const std::string& command : commands) {
    const Outcome outcome = run(command + " --help");
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_NE(outcome.out.find("Examples:"), std::string::npos) << command;
  }
  EXPECT_EQ(run_shell("'" BESPOKE_TRAIN_BINARY "' --version").rfind("bespoke-train ", 0), 0u);
}

// To load it takes a second. The dynamic linker says what it loads for these commands.
TEST_F(CommandLine, WhatNeedsNoLibTorchDoesNotLoadIt) {
  ASSERT_EQ(run("solver euler --nfe 4 -o e.solver.json").code, 0);
  const auto libraries = [&](const std::string& command) {
    return run_shell("cd '" + folder_.string() + "' && LD_DEBUG=files '" BESPOKE_BINARY "' " +
                     command + " 2>&1 >/dev/null | grep -c 'file=libtorch' || true");
  };
  for (const std::string command :
       {"--help", "solvers", "solver rk4 --nfe 8", "show e.solver.json", "solvers --help",
        "import --times 0,0.5,1 --method euler", "export e.solver.json --to c",
        "export e.solver.json --to latex", "comprae", "train"}) {
    EXPECT_EQ(libraries(command), "0\n") << command;
  }
  EXPECT_NE(libraries("sample --help"), "0\n") << "the test no longer sees what is loaded";
}

TEST_F(CommandLine, ListsTheCatalogueInEveryFormat) {
  const auto json = nlohmann::json::parse(run("solvers --format json").out);
  ASSERT_EQ(json.size(), catalogue().size());
  EXPECT_EQ(json[1]["name"], "midpoint");
  EXPECT_EQ(json[1]["order"], 2);
  for (const auto& format : {"table", "md", "csv"}) {
    const std::string text = run(std::string("solvers --format ") + format).out;
    for (const auto& entry : catalogue()) EXPECT_NE(text.find(entry.name), std::string::npos);
  }
}

TEST_F(CommandLine, TheDocumentedCatalogueIsCurrent) {
  const std::string page = read_file(fs::path(BESPOKE_SOURCE_DIR) / "docs/reference/solvers.md");
  for (const std::string table : {"solvers --format md", "solvers --grids --format md"}) {
    EXPECT_NE(page.find(run(table).out), std::string::npos)
        << "docs/reference/solvers.md is out of date: run ./dev docs";
  }
}

TEST_F(CommandLine, WritesShowsAndRunsASolverFile) {
  const Outcome written =
      run("solver dpm++2m --nfe 6 --schedule vp --prediction noise -o d.solver.json");
  ASSERT_EQ(written.code, 0) << written.err;
  const SolverFile file = read_solver_file(folder_ / "d.solver.json");
  EXPECT_TRUE(file.at() == make_solver("dpm++2m", {6, vp_schedule(), ""}));
  EXPECT_EQ(run("solver dpm++2m --nfe 6 --schedule vp --prediction noise").out,
            read_file(folder_ / "d.solver.json"));
  const Outcome shown = run("show d.solver.json");
  EXPECT_EQ(shown.code, 0);
  EXPECT_NE(shown.out.find("dpm++2m: 6 NFE, 34 free parameters"), std::string::npos) << shown.out;
  const std::string model = "--model analytic:mixture:dim=4,prediction=noise@vp --count 3 ";
  ASSERT_EQ(run("sample --solver d.solver.json " + model + "-o a").code, 0);
  ASSERT_EQ(run("sample --solver dpm++2m --nfe 6 " + model + "-o b").code, 0);
  const auto from_file = read_safetensors(folder_ / "a/samples.safetensors").tensors.at("samples");
  const auto by_name = read_safetensors(folder_ / "b/samples.safetensors").tensors.at("samples");
  EXPECT_TRUE(torch::equal(from_file, by_name));
  expect_failure("sample --solver d.solver.json --model analytic:mixture@cosine -o c", 3,
                 "was made for the schedule");
  expect_failure("sample --solver d.solver.json --nfe 8 " + model + "-o c", 3, "it has 6");
}

// One rule for all commands: each difference is a warning that names it.
TEST_F(CommandLine, WarnsWhereASolverWasMadeForAnotherField) {
  ASSERT_EQ(run("solver ddim --nfe 4 --schedule vp --prediction data -o d.solver.json").code, 0);
  auto file = nlohmann::json::parse(read_file(folder_ / "d.solver.json"));
  file["provenance"] = {{"made_by", "distil"}};
  write_file_atomically(folder_ / "d.solver.json", file.dump());
  const std::string warning =
      "bespoke: warning: d.solver.json was made for data prediction, this model has noise "
      "prediction\n";
  const std::string model = " --model analytic:mixture:dim=4,prediction=";
  for (const std::string command :
       {"sample --solver d.solver.json --count 2 -o s", "compare --solvers d.solver.json --count 2",
        "distill --nfe 4-5 --samples 16 --method direct --iterations 1 --init d.solver.json -o "
        "run"}) {
    const Outcome other = run(command + model + "noise@vp");
    EXPECT_EQ(other.code, 0) << other.err;
    EXPECT_EQ(other.err.find(warning), other.err.rfind("bespoke: warning")) << other.err;
    EXPECT_NE(other.err.find(warning), std::string::npos) << command << other.err;
  }
  EXPECT_EQ(run("sample --solver d.solver.json --count 2 -o t" + model + "data@vp").err, "");
}

TEST_F(CommandLine, ChoosesAmongTheSolversOfAFile) {
  const Outcome written = run("solver euler --nfe 2,4-8+2 --schedule vp -o e.solver.json");
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(read_solver_file(folder_ / "e.solver.json").nfes(), (std::vector<int>{2, 4, 6, 8}));
  const Outcome all = run("show e.solver.json");
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_NE(all.out.find("euler: 4 solvers"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("  4 noise o"), std::string::npos) << all.out;
  EXPECT_EQ(nlohmann::json::parse(run("show e.solver.json --format json").out)[2]["NFE"], 6);
  const Outcome one = run("show e.solver.json --nfe 6");
  EXPECT_NE(one.out.find("euler: 6 NFE, 34 free parameters"), std::string::npos) << one.out;
  expect_failure("show e.solver.json --nfe 5", 3, "it has 2, 4, 6, 8");

  const std::string model = "--model analytic:mixture:dim=4@vp --count 3 ";
  ASSERT_EQ(run("sample --solver e.solver.json --nfe 6 " + model + "-o a").code, 0);
  ASSERT_EQ(run("sample --solver euler --nfe 6 " + model + "-o b").code, 0);
  EXPECT_TRUE(
      torch::equal(read_safetensors(folder_ / "a/samples.safetensors").tensors.at("samples"),
                   read_safetensors(folder_ / "b/samples.safetensors").tensors.at("samples")));
  expect_failure("sample --solver e.solver.json " + model + "-o c", 2,
                 "holds solvers of 2, 4, 6, 8 evaluations; choose one of them with --nfe");
  expect_failure("sample --solver e.solver.json --nfe 7 " + model + "-o c", 3, "it has 2, 4, 6, 8");

  ASSERT_EQ(run("solver e.solver.json --nfe 6 -o six.solver.json").code, 0);
  EXPECT_EQ(read_file(folder_ / "six.solver.json"), run("solver euler --nfe 6 --schedule vp").out);
  expect_failure("solver e.solver.json --nfe 6 --schedule vp", 2, "leave out --schedule");
}

TEST_F(CommandLine, ComparesTheSolversOfAFileThatAreThere) {
  ASSERT_EQ(run("solver euler --nfe 4,6 -o e.solver.json").code, 0);
  const Outcome outcome =
      run("compare --solvers heun,e.solver.json --nfe 4-8+2 --count 4 --format json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("e.solver.json has no solver of 8 evaluations; it has 4, 6"),
            std::string::npos)
      << outcome.err;
  const auto rows = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[3]["solver"], "e.solver.json");
  EXPECT_EQ(rows[3]["nfe"], 4);
  EXPECT_EQ(rows[4]["nfe"], 6);
  const auto by_name =
      nlohmann::json::parse(run("compare --solvers euler --nfe 4,6 --count 4 --format json").out);
  for (const size_t i : {0u, 1u}) EXPECT_EQ(rows[3 + i]["psnr_db"], by_name[i]["psnr_db"]);
  expect_failure("compare --solvers e.solver.json --nfe 8 --count 4", 3, "it has 4, 6");
}

TEST_F(CommandLine, SamplesDoNotDependOnBatchOrThreads) {
  const std::string command = "sample --solver rk4 --nfe 8 --count 10 --seed 5 ";
  ASSERT_EQ(run(command + "--batch 10 --threads 1 -o a").code, 0);
  ASSERT_EQ(run(command + "--batch 3 --threads 2 -o b").code, 0);
  EXPECT_EQ(read_file(folder_ / "a/samples.safetensors"),
            read_file(folder_ / "b/samples.safetensors"));
}

TEST_F(CommandLine, StartsFromTheUsersNoise) {
  ASSERT_EQ(run("sample --solver reference --count 4 -o a").code, 0);
  ASSERT_EQ(run("sample --solver reference --noise a/samples.safetensors -o b").code, 0);
  EXPECT_NE(run("sample --noise a/samples.safetensors -o c").out.find("4 samples from the noise"),
            std::string::npos);
  expect_failure("sample --noise a/samples.safetensors --count 5 -o d", 2, "than the 4 samples");
  EXPECT_TRUE(
      torch::equal(read_safetensors(folder_ / "a/samples.safetensors").tensors.at("samples"),
                   read_safetensors(folder_ / "b/samples.safetensors").tensors.at("samples")));
}

TEST_F(CommandLine, ComparesSolversOverAListOfNfe) {
  const auto rows = nlohmann::json::parse(
      run("compare --solvers euler,heun,rk4 --nfe 4-8+2 --count 8 --format json").out);
  ASSERT_EQ(rows.size(), 3u + 3u + 2u);  // rk4 cannot spend 6
  for (const auto& row : rows) EXPECT_GT(row["psnr_db"].get<double>(), 5);
  const std::string table = run("compare --solvers euler,rk4 --nfe 4-8+2 --count 8").out;
  EXPECT_NE(table.find("PSNR in dB (peak-to-peak 2, sample space)"), std::string::npos);
  EXPECT_NE(table.find("8 samples of seed 0"), std::string::npos);
}

TEST_F(CommandLine, GuidanceNeedsAndUsesAClass) {
  const std::string model =
      "--model analytic:mixture:dim=8,classes=4 --count 4 --solver euler --nfe 4 ";
  ASSERT_EQ(run("sample " + model + "--cond class=1 -o a").code, 0);
  ASSERT_EQ(run("sample " + model + "--cond class=1 --guidance 2 -o b").code, 0);
  EXPECT_FALSE(
      torch::equal(read_safetensors(folder_ / "a/samples.safetensors").tensors.at("samples"),
                   read_safetensors(folder_ / "b/samples.safetensors").tensors.at("samples")));
  expect_failure("sample " + model + "--guidance 2 -o c", 2, "--guidance needs a condition");
  expect_failure("sample " + model + "--cond class=9 -o c", 3,
                 "condition class = 9 is out of range");
  expect_failure("sample --cond class=0 -o c", 2, "has no conditions");
}

TEST_F(CommandLine, BuildsUsersTableausAndRules) {
  write_file_atomically(folder_ / "t.json", R"({"a": [[], [0.5]], "b": [0, 1], "c": [0, 0.5]})");
  write_file_atomically(folder_ / "m.json", R"({"a": [0, 1], "b": [-0.5, 1.5]})");
  const auto coefficients = [&](const std::string& name) {
    const Outcome outcome = run("solver " + name + " --nfe 4");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse_solver_file(outcome.out, name).at();
  };
  EXPECT_TRUE(coefficients("tableau:t.json") == coefficients("midpoint"));
  EXPECT_NEAR(coefficients("multistep:m.json").b[1][0], 0.125, 1e-15);
  EXPECT_NEAR(coefficients("multistep:m.json").b[1][1], 0.375, 1e-15);
  write_file_atomically(folder_ / "t.json", R"({"a": [[], [0.5]], "b": [0, 2], "c": [0, 0.5]})");
  expect_failure("solver tableau:t.json --nfe 4", 3, "sum to 2");
}

TEST_F(CommandLine, ReadsOptionsFromAToml) {
  write_file_atomically(
      folder_ / "run.toml",
      "[compare]\nsolvers = \"euler\"\nnfe = \"4\"\ncount = 2\nformat = \"csv\"\n");
  const Outcome outcome = run("--config run.toml compare");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("solver,nfe,psnr_db,psnr_error_db,latent_psnr_db,snr_db,", 0), 0u)
      << outcome.out;
  write_file_atomically(folder_ / "run.toml", "[compare]\nslovers = \"euler\"\n");
  expect_failure("--config run.toml compare", 2, "did you mean 'solvers'?");
}

TEST_F(CommandLine, UsageErrorsSuggestTheFix) {
  expect_failure("comprae", 2, "did you mean 'compare'?");
  expect_failure("--config x.toml comprae", 2, "did you mean 'compare'?");
  expect_failure("compare --config x.toml", 2, "before the command");
  expect_failure("compare --nef 4", 2, "did you mean '--nfe'?");
  expect_failure("solver mipoint", 2, "did you mean 'midpoint'?");
  expect_failure("solver heun --nfe 7", 2, "6 or 8");
  expect_failure("solver euler --schedule vpp", 2, "did you mean 'vp'?");
  expect_failure("solver euler/karas", 2, "did you mean 'karras'?");
  expect_failure("solver euler --prediction nois", 2, "did you mean 'noise'?");
  expect_failure("solver euler --nfe lots", 2, "--nfe");
  expect_failure("compare --nfe 8-4", 2, "4-20+2");
  expect_failure("compare --solvers rk4 --nfe 5", 2, "4 or 8");
  expect_failure("compare --model analytic:mixtur", 2, "analytic:mixture");
  expect_failure("compare --model analytic:mixture:dims=3", 2, "did you mean 'dim'?");
  expect_failure("sample --solver euler --dtype fp13 -o x", 2, "dtype");
  expect_failure("solvers --format xml", 2, "format");
  expect_failure("", 2, "subcommand");
}

TEST_F(CommandLine, RefusesValuesOutOfRange) {
  expect_failure("compare --solvers dpm3s --nfe 0", 2, "NFE must be from 1 to 10000");
  expect_failure("compare --solvers dpm2s --nfe=-4", 2, "NFE must be from 1 to 10000");
  expect_failure("compare --nfe 4294967300", 2, "NFE must be from 1 to 10000");
  expect_failure("solver euler --nfe 4-8+2,0", 2, "NFE must be from 1 to 10000");
  expect_failure("sample --seed -1 -o x", 2, "--seed must not be negative");
  expect_failure("sample --count -1 -o x", 2, "--count");
  expect_failure("sample --model analytic:mixture@vp:B=inf -o x", 2, "must be finite");
  expect_failure("solver euler/uniform-lambda:margin=-1", 2, "margin must be positive");
  expect_failure("solver euler+lower-order-final", 2, "no order to lower");
  write_file_atomically(folder_ / "t.txt", "0.9 0.5 x");
  expect_failure("solver euler --schedule table:t.txt", 3, "entry 2");
}

TEST_F(CommandLine, SaysWhenMemoryRunsOut) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer writes a line of its own where memory runs out";
#endif
  expect_failure("sample --count 100000000000 -o x", 4, "out of memory");
}

#ifndef __SANITIZE_ADDRESS__
// Below the limit OpenBLAS would ask for its memory for ever.
TEST_F(CommandLine, ALimitOfMemoryIsNamedOrKept) {
  const auto limited = [&](const std::string& limit, const std::string& arguments) {
    const std::string command = "cd '" + folder_.string() + "' && ulimit " + limit +
                                " && OMP_NUM_THREADS=2 timeout 100 '" BESPOKE_BINARY "' " +
                                arguments + " >out.txt 2>err.txt";
    return WEXITSTATUS(std::system(command.c_str()));
  };
  EXPECT_EQ(limited("-v 600000", "sample -o x"), 4);
  EXPECT_EQ(read_file(folder_ / "err.txt"),
            "bespoke: memory is limited to 585 MB (ulimit -v), and 1220 MB are needed with "
            "OMP_NUM_THREADS=2, 1060 MB with 1; raise the limit or lower the threads\n");
  EXPECT_EQ(limited("-d 300000", "sample -o x"), 4);
  EXPECT_NE(read_file(folder_ / "err.txt").find("(ulimit -d)"), std::string::npos);
  const std::string sample = "sample --solver euler --nfe 2 --count 4 --threads ";
  EXPECT_EQ(limited("-v 2000000", sample + "2 -o out"), 0) << read_file(folder_ / "err.txt");
  EXPECT_EQ(limited("-v 2000000", sample + "64 -o more"), 4);
  EXPECT_NE(read_file(folder_ / "err.txt").find("64 threads take 10240 MB more"),
            std::string::npos);
}
#endif

// As one who may not write there: root may write anywhere.
TEST_F(CommandLine, AFolderThatMayNotBeWrittenIsAFailureOfOneSentence) {
  const std::string user =
      ::geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
  const std::string prepare =
      "chmod 755 '" + folder_.string() + "' && cd '" + folder_.string() +
      "' && mkdir closed && echo old >closed/x.json && chmod 555 closed && " + user +
      "test -x '" BESPOKE_BINARY "'";
  if (std::system((prepare + " 2>/dev/null").c_str()) != 0) GTEST_SKIP() << "nobody cannot run it";
  for (const std::string command :
       {"solver euler -o closed/x.json", "sample --solver euler --nfe 2 -o closed/out",
        "pairs --count 2 -o closed/pairs", "distill --nfe 2 --samples 16 -o closed/run",
        "compare --nfe 4 --count 2 --no-cache --report closed/report.html"}) {
    const std::string whole = "cd '" + folder_.string() +
                              "' && : >err.txt && XDG_CACHE_HOME=/nowhere " + user +
                              "'" BESPOKE_BINARY "' " + command + " >/dev/null 2>err.txt";
    EXPECT_EQ(WEXITSTATUS(std::system(whole.c_str())), 1) << command;
    const std::string said = read_file(folder_ / "err.txt");
    EXPECT_NE(said.find("Permission denied"), std::string::npos) << command << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
  EXPECT_EQ(read_file(folder_ / "closed/x.json"), "old\n");
  EXPECT_EQ(run_shell("ls -A '" + (folder_ / "closed").string() + "'"), "x.json\n");
}

TEST_F(CommandLine, FindsAnUnusableOutputBeforeTheWork) {
  write_file_atomically(folder_ / "taken", "a file");
  expect_failure("sample --solver euler -o taken/inside", 1, "choose another");
  const std::string command = "'" BESPOKE_BINARY "' solver rk4 --nfe 400 >/dev/full 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
}

TEST_F(CommandLine, AFileContendsAtItsOwnNfe) {
  ASSERT_EQ(run("solver heun --nfe 6 -o h.solver.json").code, 0);
  const auto rows = nlohmann::json::parse(
      run("compare --solvers euler,h.solver.json --nfe 4 --count 4 --format json").out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["nfe"], 6);
  expect_failure("sample --solver h.solver.json --grid karras -o x", 2,
                 "write the grid in the solver's name");
}

TEST_F(CommandLine, BadFilesAreRefusedWithCodeThree) {
  expect_failure("show absent.json", 3, "No such file");
  write_file_atomically(folder_ / "bad.json", "not json");
  expect_failure("show bad.json", 3, "not a JSON file");
  expect_failure("sample --solver bad.json -o x", 3, "not a JSON file");
  expect_failure("sample --solver euler --noise bad.json -o x", 3, "bad.json");
}

TEST_F(CommandLine, AnInterruptedRunEndsWithCode130) {
  // As soon as it listens: SIGINT, the second bit, is among the signals it catches; and it is no
  // longer the shell that it begins as.
  const Outcome outcome = interrupt_when(
      "{ grep -q 'Name:.bespoke' /proc/$pid/status && "
      "grep -q 'SigCgt.*[2367abef]$' /proc/$pid/status; }",
      "sample --solver reference --tolerance 1e-12 --count 100000 -o x");
  EXPECT_EQ(outcome.code, 130);
  EXPECT_NE(outcome.err.find("interrupted"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "x/samples.safetensors"));
}

}  // namespace
}  // namespace bespoke
