// Solvers for other programs and from them, each run and compared with what `sample` draws.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bespoke/base/file.h"
#include "bespoke/base/text.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/path/guidance_weight.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/solver_file.h"
#include "command_line.h"

namespace bespoke {

using namespace detail;
namespace {

using nlohmann::json;

class ExportCommand : public CommandLine {
 protected:
  void save_module(const std::string& name, const std::string& source) const {
    torch::jit::Module module("network");
    module.define(source);
    module.save((folder_ / name).string());
  }
  void save_network(const std::string& source) const { save_module("weights.pt", source); }
  void save_decoder(const std::string& source) const { save_module("decoder.pt", source); }

  void write_export_card(const json& changes) const {
    json card = {{"format", "torchscript"},
                 {"weights", "weights.pt"},
                 {"sample_shape", {5}},
                 {"prediction", "velocity"},
                 {"schedule", {{"name", "fm-ot"}}},
                 {"time", {{"convention", "noise-to-data"}}}};
    card.update(changes);
    write_file_atomically(folder_ / "model.json", card.dump());
  }

  // A smooth network of x, its time and a class.
  void save_conditional_network() const {
    save_network(R"(def forward(self, x, t, y):
    s = torch.sin(t.to(x.dtype) * 0.01 + y.to(x.dtype)).unsqueeze(1)
    return torch.tanh(0.7 * x + s) + 0.1 * x * s
)");
  }

  void expect_done(const std::string& arguments) const {
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
  }

  TensorFile drawn(const std::string& folder) const {
    return read_safetensors(folder_ / folder / "samples.safetensors");
  }

  // Samples of the model with mine.solver.json, and those that the exported module draws from the
  // same noise.
  void expect_module_draws_the_samples(const std::string& sample_options,
                                       const std::string& export_options, double source_std,
                                       double tolerance) const {
    expect_done("sample --model model.json --solver mine.solver.json --count 6 -o out " +
                sample_options);
    expect_done("export mine.solver.json --model model.json --to torchscript -o fast.pt " +
                export_options);
    const TensorFile file = drawn("out");
    torch::jit::Module module = torch::jit::load((folder_ / "fast.pt").string());
    std::vector<torch::IValue> inputs = {file.tensors.at("noise") / source_std};
    for (const std::string name : {"y", kGuidanceCondition}) {
      const auto found = file.tensors.find("condition." + name);
      if (found != file.tensors.end()) inputs.emplace_back(found->second);
    }
    const torch::Tensor found = module.forward(inputs).toTensor();
    const torch::Tensor& expected = file.tensors.at("samples");
    EXPECT_EQ(found.scalar_type(), expected.scalar_type());
    const double error = (found - expected).abs().max().item<double>();
    EXPECT_LT(error / expected.abs().max().item<double>(), tolerance) << export_options;
  }
};

// The velocity of a Gaussian of deviation 0.5, in C.
const char kProgram[] = R"(
#include <stdio.h>
#include <stdlib.h>
#include "solver.h"
#define NETWORK(T) static void network_##T(int step, double t, const T* x, T* f, size_t n, \
                                           void* context) { \
  size_t k; const double v = 0.25 * t * t + (1 - t) * (1 - t); (void)context; \
  if (step < 0 || step >= MINE_NFE) abort(); \
  for (k = 0; k < n; ++k) f[k] = (T)((0.25 * t / v - 1) * (double)x[k] / (1 - t)); }
NETWORK(float)
NETWORK(double)
#define RUN(T) do { \
  T x[30]; T* work = (T*)malloc(sizeof(T) * 30 * (MINE_NFE + 1)); int k; \
  FILE* file = fopen("noise.txt", "r"); \
  for (k = 0; k < 30; ++k) { double value; if (fscanf(file, "%lf", &value) != 1) abort(); \
                             x[k] = (T)value; } \
  fclose(file); \
  mine_sample_##T(network_##T, NULL, x, work, 30); \
  for (k = 0; k < 30; ++k) printf("%.9g\n", (double)x[k]); \
  free(work); } while (0)
int main(void) { RUN(float); RUN(double); return 0; }
)";

class CHeaderCommand : public ExportCommand {
 protected:
  void expect_drawn_in_both_languages(const json& card) const;
};

void CHeaderCommand::expect_drawn_in_both_languages(const json& card) const {
  save_network(R"(def forward(self, x, t):
    s = t.unsqueeze(1)
    return (0.25 * s / (0.25 * s * s + (1.0 - s) * (1.0 - s)) - 1.0) * x / (1.0 - s)
)");
  write_export_card(card);
  expect_done("solver dpm++2m/lambda-range:from=-3 --nfe 5-6 -o mine.solver.json");
  if (card.contains("clip")) {  // as a distilled solver of this model says
    json file = json::parse(read_file(folder_ / "mine.solver.json"));
    file["field"]["clip"] = card["clip"];
    write_file_atomically(folder_ / "mine.solver.json", file.dump());
  }
  expect_done("sample --model model.json --solver mine.solver.json --nfe 6 --count 6 -o out");
  expect_done("export mine.solver.json --nfe 6 --name mine --to c -o solver.h");
  const TensorFile file = drawn("out");
  const torch::Tensor noise = file.tensors.at("noise").reshape({-1}).contiguous();
  const torch::Tensor expected = file.tensors.at("samples").reshape({-1}).to(torch::kDouble);
  std::ofstream text(folder_ / "noise.txt");
  for (int64_t i = 0; i < noise.numel(); ++i) text << exact(noise[i].item<float>()) << "\n";
  text.close();
  for (const std::string compiler : {"cc -std=c11 main.c", "c++ -std=c++17 main.cpp"}) {
    write_file_atomically(folder_ / compiler.substr(compiler.rfind(' ') + 1), kProgram);
    const std::string in_folder = "cd '" + folder_.string() + "' && ";
    if (std::system(
            (in_folder + "command -v " + compiler.substr(0, compiler.find(' ')) + " >/dev/null")
                .c_str()) != 0) {
      GTEST_SKIP() << "no compiler";
    }
    ASSERT_EQ(std::system((in_folder + compiler +
                           " -Wall -Wextra -Werror -pedantic -o program && ./program >drawn.txt")
                              .c_str()),
              0)
        << compiler;
    std::istringstream stream(read_file(folder_ / "drawn.txt"));
    for (const char* type : {"float", "double"}) {
      for (int64_t i = 0; i < 30; ++i) {
        double value = 0;
        ASSERT_TRUE(stream >> value);
        EXPECT_NEAR(value, expected[i].item<double>(), 2e-6) << compiler << " " << type;
      }
    }
  }
}

TEST_F(CHeaderCommand, DrawsTheSamplesInBothLanguages) {
  expect_drawn_in_both_languages(json::object());
}

TEST_F(CHeaderCommand, ClipsTheDataPrediction) {
  expect_drawn_in_both_languages({{"clip", {-0.3, 0.2}}});
  const TensorFile file = drawn("out");
  EXPECT_NEAR(file.tensors.at("samples").max().item<double>(), 0.2, 1e-3);
}

TEST_F(ExportCommand, ATorchScriptFileHoldsModelAndSolver) {
  save_network("def forward(self, x, t):\n    return torch.tanh(x) * t.unsqueeze(1) - 0.5 * x\n");
  write_export_card(json::object());
  expect_done("solver midpoint --nfe 6 -o mine.solver.json");
  expect_module_draws_the_samples("", "", 1, 1e-6);
  expect_module_draws_the_samples("--dtype bf16", "--dtype bf16", 1, 1e-4);
  // What it holds can be looked at, and what made it read back.
  torch::jit::ExtraFilesMap extra = {{"solver.json", ""}};
  const torch::jit::Module module =
      torch::jit::load((folder_ / "fast.pt").string(), torch::kCPU, extra);
  EXPECT_EQ(module.attr("times").toDoubleVector().size(), 7u);
  EXPECT_TRUE(parse_solver_file(extra["solver.json"], "extra").at() ==
              read_solver_file(folder_ / "mine.solver.json").at());
}

TEST_F(ExportCommand, ATorchScriptFileKnowsConditionsGuidanceAndTime) {
  save_conditional_network();
  const json condition = {{"name", "y"}, {"classes", 4}, {"null", 4}};
  write_export_card({{"prediction", "noise"},
                     {"schedule", {{"name", "ddpm-linear"}}},
                     {"time", {{"convention", "index"}, {"levels", 1000}, {"integer", true}}},
                     {"conditions", {condition}}});
  expect_done(
      "solver dpm++2m/lambda-range --schedule ddpm-linear --prediction noise --nfe 5 -o "
      "mine.solver.json");
  expect_module_draws_the_samples("--cond y=0-3", "", 1, 1e-5);
  expect_module_draws_the_samples("--cond y=0-3 --guidance 2", "--guidance 2", 1, 1e-5);
  expect_module_draws_the_samples("--cond y=0-3 --guidance 0:3,1:0.5 --guidance-interval 0.2,0.8",
                                  "--guidance 0:3,1:0.5 --guidance-interval 0.2,0.8", 1, 1e-5);
  expect_module_draws_the_samples("--cond y=0-3 --guidance 0-4", "--guidance 0-4", 1, 1e-5);
  expect_module_draws_the_samples("--cond y=0-3 --guidance 1.5 --dtype bf16",
                                  "--guidance-scale 2.5 --dtype bf16", 1, 1e-3);
  // Unless told otherwise it is guided as the solver was made to be.
  json file = json::parse(read_file(folder_ / "mine.solver.json"));
  file["field"]["guidance"] = 2.0;
  write_file_atomically(folder_ / "mine.solver.json", file.dump());
  expect_module_draws_the_samples("--cond y=0-3 --guidance 2", "", 1, 1e-5);
  // A name that is none in TorchScript is only a name.
  write_export_card({{"conditions", {{{"name", "class"}, {"classes", 4}}}}});
  expect_done("export euler --nfe 2 --model model.json --to torchscript -o fast.pt");
}

TEST_F(ExportCommand, ATorchScriptFileClips) {
  save_network("def forward(self, x, t):\n    return torch.tanh(x) * t.unsqueeze(1) - 0.5 * x\n");
  const json dynamic = {{"quantile", 0.8}, {"cap", 1.5}};
  for (const json& clip : {json({-0.3, 0.2}), dynamic}) {
    write_export_card({{"clip", clip}});
    expect_done("solver midpoint --nfe 6 -o mine.solver.json");
    json file = json::parse(read_file(folder_ / "mine.solver.json"));
    file["field"]["clip"] = clip;  // as a distilled solver of this model says
    write_file_atomically(folder_ / "mine.solver.json", file.dump());
    expect_module_draws_the_samples("", "", 1, 1e-6);
  }
}

TEST_F(ExportCommand, ATorchScriptFileScalesWhatAnEdmNetworkIsGiven) {
  save_conditional_network();
  write_export_card({{"prediction", "edm"},
                     {"schedule", {{"name", "edm"}, {"sigma_max", 40}}},
                     {"time", {{"convention", "log-sigma"}}},
                     {"input_scaling", "edm"},
                     {"conditions", {{{"name", "y"}, {"classes", 4}, {"null", 4}}}}});
  expect_done(
      "solver edm-heun --schedule edm:sigma_max=40 --prediction edm --nfe 7 -o mine.solver.json");
  expect_module_draws_the_samples("--cond y=0-3", "", 40, 1e-5);
}

TEST_F(ExportCommand, ATorchScriptFileDecodes) {
  save_network("def forward(self, x, t):\n    return -x\n");
  torch::jit::Module decoder("decoder");
  decoder.define("def forward(self, z):\n    return torch.tanh(z.repeat_interleave(2, 1))\n");
  decoder.save((folder_ / "decoder.pt").string());
  write_export_card(
      {{"decoder",
        {{"weights", "decoder.pt"}, {"scale", 0.5}, {"shift", 0.1}, {"sample_shape", {10}}}}});
  expect_done("sample --model model.json --solver euler --nfe 3 --count 2 -o out");
  expect_done("export euler --nfe 3 --model model.json --to torchscript -o fast.pt");
  const TensorFile file = drawn("out");
  torch::jit::Module module = torch::jit::load((folder_ / "fast.pt").string());
  const torch::Tensor samples = module.forward({file.tensors.at("noise")}).toTensor();
  EXPECT_TRUE(torch::allclose(samples, file.tensors.at("samples"), 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(module.get_method("decode")({samples}).toTensor(),
                              file.tensors.at("decoded"), 1e-5, 1e-6));
}

TEST_F(ExportCommand, WritesWhatOtherToolsRead) {
  expect_done(
      "solver dpm++2m/lambda-range --schedule ddpm-linear --prediction noise --nfe 4,6 -o "
      "mine.solver.json");
  expect_done("export mine.solver.json --to diffusers -o scheduler");
  const json config = json::parse(read_file(folder_ / "scheduler/scheduler_config.json"));
  EXPECT_EQ(config["solvers"].size(), 2u);
  expect_done("export mine.solver.json --nfe 6 --to diffusers -o scheduler");
  EXPECT_EQ(json::parse(read_file(folder_ / "scheduler/scheduler_config.json"))["solvers"].size(),
            1u);
  const Outcome markdown = run("export mine.solver.json --to markdown --digits 4");
  EXPECT_EQ(markdown.code, 0) << markdown.err;
  EXPECT_NE(markdown.out.find("| $i$ | $t_i$ | $a_i$ |"), std::string::npos) << markdown.out;
  EXPECT_NE(run("export mine.solver.json --nfe 4 --to latex").out.find("\\toprule"),
            std::string::npos);
}

// To sigmas and back: the same samples, and a file as any other.
TEST_F(ExportCommand, SigmasComeBackAsTheSameSolver) {
  expect_done(
      "solver dpm++2m/lambda-range --schedule ddpm-linear --prediction noise --nfe 4,6 -o "
      "mine.solver.json");
  expect_done("export mine.solver.json --to sigmas -o mine.sigmas.json");
  expect_done("import mine.sigmas.json -o back.solver.json");
  const std::string sample =
      "sample --model analytic:mixture:dim=8,prediction=noise@ddpm-linear --nfe 6 "
      "--count 4 --solver ";
  expect_done(sample + "mine.solver.json -o a");
  expect_done(sample + "back.solver.json -o b");
  EXPECT_TRUE(torch::allclose(drawn("a").tensors.at("samples"), drawn("b").tensors.at("samples"),
                              1e-4, 1e-5));
}

TEST_F(ExportCommand, ImportsTimesForAMethod) {
  const std::string path = " --schedule ddpm-scaled-linear --prediction noise ";
  write_file_atomically(folder_ / "list.txt", "14.6146412293 3.5\n1.2, 0.3 0\n");
  expect_done("import --sigmas list.txt --method dpm++2m" + path + "--name ld3 -o a.solver.json");
  expect_done("import --sigmas 14.6146412293,3.5,1.2,0.3 --method dpm++2m" + path +
              "-o b.solver.json");
  const SolverFile found = read_solver_file(folder_ / "a.solver.json");
  EXPECT_EQ(found.name, "ld3");
  EXPECT_TRUE(found.at() == read_solver_file(folder_ / "b.solver.json").at());
  EXPECT_TRUE(found.at() == make_solver("dpm++2m", {4, make_schedule("ddpm-scaled-linear"),
                                                    "sigmas:14.6146412293,3.5,1.2,0.3,0"}));
  const std::string model =
      "--model analytic:mixture:dim=4,prediction=noise@ddpm-scaled-linear --nfe 4 ";
  const Outcome compared =
      run("compare " + model + "--count 4 --solvers dpm++2m/ays,a.solver.json --format csv");
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_NE(compared.out.find("a.solver.json"), std::string::npos) << compared.out;
  expect_done("distill " + model + "--samples 16 --iterations 1 --init a.solver.json -o run");
}

// What would fail for whoever runs it is found when it is made.
TEST_F(ExportCommand, RefusesNetworksThatReturnSomethingElse) {
  const std::string command = "export euler --nfe 2 --model model.json --to torchscript -o x.pt";
  for (const auto& [body, words] : std::vector<std::pair<std::string, std::string>>{
           {"x[:, :3]", "returned a dense tensor of Float numbers"},
           {"x.sum(1)", "the card says 2x5"},
           {"x.long()", "must return a dense tensor of floating-point numbers"},
           {"(x, x)", "returned no tensor"},
           {"torch.mm(x, x)", "failed when it was called"}}) {
    save_network("def forward(self, x, t):\n    return " + body + "\n");
    write_export_card(json::object());
    expect_failure(command, 3, words);
    EXPECT_FALSE(is_file(folder_ / "x.pt")) << body;
  }
  save_network("def forward(self, x, t):\n    return -x\n");
  save_decoder("def forward(self, x):\n    return x[:, :2]\n");
  write_export_card(
      {{"decoder", {{"weights", "decoder.pt"}, {"sample_shape", {4}}, {"scale", 0.5}}}});
  expect_failure(command, 3, "decoder.pt returned a dense tensor of Float numbers");
}

TEST_F(ExportCommand, ImportsWhatOtherToolsWrite) {
  write_file_atomically(folder_ / "ns.py",
                        "step2=dict(timedeltas=[0.3, 0.7], coeffs=[[0, 0], [-1.5, 0]]),\n"
                        "step3=dict(timedeltas=[0.1, 0.4, 0.5],\n coeffs=[[0, 0, 0], [-1.2, 0, 0], "
                        "[0.4, -2, 0]])\n");
  expect_done("import ns.py -o ns.solver.json");
  EXPECT_EQ(read_solver_file(folder_ / "ns.solver.json").nfes(), (std::vector<int>{2, 3}));
  c10::impl::GenericDict checkpoint(c10::StringType::get(), c10::AnyType::get());
  checkpoint.insert("params1", torch::ones({3}));
  checkpoint.insert("step", 7);
  checkpoint.insert("best_t_steps", torch::tensor({1., 0.5, 0.001, 0.98, 0.5, 0.001}));
  const std::vector<char> bytes = torch::pickle_save(checkpoint);
  write_file_atomically(folder_ / "best_v2.pt", {bytes.begin(), bytes.end()});
  const std::string ld3 = "import best_v2.pt --schedule vp --prediction noise ";
  expect_done(ld3 + "--method ipndm -o ld3.solver.json");
  const NsSolver solver = read_solver_file(folder_ / "ld3.solver.json").at();
  EXPECT_EQ(solver.nfe(), 2);
  EXPECT_NEAR(solver.times[0], 0.02, 1e-6) << "what the network is told";
  expect_failure(ld3, 3, "say with --method");
  expect_failure(ld3 + "--method ipndm --times 0,1", 2, "has times of its own");
  write_file_atomically(folder_ / "network.pkl", "\x80\x04\x95");
  expect_failure("import network.pkl", 3, "is a pickle");
  write_file_atomically(folder_ / "part.pt", {bytes.begin(), bytes.begin() + 200});
  expect_failure("import part.pt", 3, "is no checkpoint that torch.save wrote");
  save_network("def forward(self, x, t):\n    return x\n");
  expect_failure("import weights.pt", 3, "holds no solver that is known");
}

TEST_F(ExportCommand, SaysWhatIsWrong) {
  expect_done("solver euler --nfe 2-3 -o two.solver.json");
  expect_failure("export two.solver.json --to pdf", 2, "--to");
  expect_failure("export two.solver.json --to c", 2, "2, 3");
  expect_failure("export two.solver.json --to c --nfe 2-3", 2, "one solver");
  expect_failure("export two.solver.json --to c --nfe 4", 3, "no solver of 4");
  expect_failure("export two.solver.json --to c --nfe 2 --name 2x", 2, "identifier");
  expect_failure("export two.solver.json --to latex --name x", 2, "--name goes with --to c");
  expect_failure("export two.solver.json --to latex --digits 0", 2, "digits");
  expect_failure("export two.solver.json --to diffusers", 2, "needs -o");
  expect_failure("export two.solver.json --to torchscript --nfe 2 -o x.pt", 2, "--model");
  expect_failure("export two.solver.json --to c --nfe 2 --model m.json", 2, "needs no --model");
  expect_failure("export two.solver.json --to c --nfe 2 --guidance 2", 2, "--guidance goes with");
  expect_failure("export two.solver.json --to sigmas --schedule vp", 2, "leave out --schedule");
  expect_failure("export euler --model analytic:mixture --to torchscript -o x.pt", 2,
                 "needs a model card");
  expect_failure("export ddim --schedule vp --prediction noise --to diffusers -o x", 3,
                 "schedule vp");
  expect_failure("export absent.solver.json --to markdown", 3, "absent.solver.json");
  expect_failure("import", 2, "give a file");
  expect_failure("import --sigmas 1,0", 2, "--method");
  expect_failure("import --sigmas 1,x --method euler", 2, "--sigmas");
  expect_failure("import --sigmas 0.5,0.7,0 --method euler", 3, "must fall");
  expect_failure("import absent.json", 3, "absent.json");
  write_file_atomically(folder_ / "bad.json", R"({"schedule": "vp", "times": [0, 1]})");
  expect_failure("import bad.json", 3, "needs one of \"method\"");
  expect_failure("import bad.json --method euler", 2, "leave out times, --method");
}

}  // namespace
}  // namespace bespoke
