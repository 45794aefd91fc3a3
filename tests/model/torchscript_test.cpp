// Every prediction and time convention, as TorchScript modules around the analytic Gaussian, must
// give the samples of the analytic field.

#include "bespoke/model/network.h"

#include <gtest/gtest.h>
#include <torch/script.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/sha256.h"
#include "bespoke/io/zip.h"
#include "bespoke/model/fields.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "io/zip_bytes.h"
#include "support.h"
#include "temporary_folder.h"

namespace bespoke {

using namespace detail;
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::relative_error;

constexpr int64_t kDimension = 6;
constexpr int64_t kLevels = 1000;

class TorchScript : public ::testing::Test {
 protected:
  // A module with the mixture's numbers as buffers and the given body of forward.
  void save(const std::string& source, torch::ScalarType dtype = torch::kFloat) const {
    const Mixture mixture = testing::small_mixture(kDimension, 4, 2);
    torch::jit::Module module("mixture");
    module.register_buffer("means", mixture.means);
    module.register_buffer("variances", torch::tensor(mixture.deviations, torch::kDouble).pow(2));
    module.register_buffer("classes", torch::tensor(mixture.classes, torch::kLong));
    module.define(kPosterior);
    module.define(source);
    module.to(dtype);
    module.save((folder_ / "weights.pt").string());
  }

  static json card(const std::string& prediction, const json& schedule, const json& time) {
    return {{"format", "torchscript"},
            {"weights", "weights.pt"},
            {"sample_shape", {kDimension}},
            {"prediction", prediction},
            {"schedule", schedule},
            {"time", time},
            {"conditions", {{{"name", "y"}, {"classes", 2}, {"null", 2}}}}};
  }

  ModelPtr load(const json& document, torch::ScalarType dtype = torch::kDouble) const {
    return load_model(parse_model_card(document.dump(), folder_ / "model.json"),
                      {torch::kCPU, dtype});
  }

  // The data prediction at (alpha, sigma) [batch, 1], for class y with 2 the null class.
  static constexpr char kPosterior[] = R"(
def data(self, x, alpha, sigma, y):
    v = alpha * alpha * self.variances.unsqueeze(0) + sigma * sigma
    z = x.unsqueeze(1) - alpha.unsqueeze(2) * self.means.unsqueeze(0)
    log_weight = -0.5 * float(x.size(1)) * torch.log(v) - (z * z).sum(2) / (2.0 * v)
    other = (self.classes.unsqueeze(0) != y.unsqueeze(1)) * (y != 2).unsqueeze(1)
    log_weight = log_weight.masked_fill(other, -1.0e30)
    gain = (alpha * self.variances.unsqueeze(0) / v).unsqueeze(2)
    return (torch.softmax(log_weight, 1).unsqueeze(2) * (self.means.unsqueeze(0) + gain * z)).sum(1)
)";

  // Samples of the loaded card and of the analytic model, with classes and the null class.
  void expect_same_samples(const json& document, Prediction prediction, const std::string& grid,
                           double tolerance, torch::ScalarType dtype = torch::kDouble) const {
    const ModelPtr loaded = load(document, dtype);
    const SchedulePtr schedule = loaded->schedule();
    const ModelPtr analytic =
        mixture_model(testing::small_mixture(kDimension, 4, 2), schedule, prediction);
    const auto x0 = testing::starting_noise(*analytic, 5);
    const auto labels = torch::tensor({0, 1, 2, 1, 0}, torch::kLong);
    const NsSolver solver = make_solver("midpoint", {8, schedule, grid});
    const auto expected = sample(solver, VelocityField(analytic), x0, {{"class", labels}});
    const auto got = sample(solver, VelocityField(loaded), x0, {{"y", labels}});
    EXPECT_LT(relative_error(got, expected), tolerance) << document.dump();
  }

  testing::TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

// alpha and sigma from the network's own time, for each way of counting it on the VP path.
std::string vp_forward(const std::string& s, const std::string& output) {
  return "def forward(self, x, time, y):\n    s = (" + s + ").unsqueeze(1)\n" +
         R"(    alpha = torch.exp(-s * s * (19.9 / 4.0) - s * 0.05)
    sigma = torch.sqrt(1.0 - alpha * alpha)
    D = self.data(x, alpha, sigma, y)
    E = (x - alpha * D) / sigma
    rate = alpha * (s * 9.95 + 0.05)
    return )" +
         output + "\n";
}

const json kVp = {{"name", "vp"}};

TEST_F(TorchScript, EveryPredictionGivesTheAnalyticSamples) {
  const std::vector<std::pair<std::string, std::string>> outputs = {
      {"data", "D"},
      {"noise", "E"},
      {"v", "alpha * E - sigma * D"},
      {"velocity", "rate * D - alpha * rate / sigma * E"},
      {"edm",
       "sigma / (0.5 * torch.sqrt(sigma * sigma + 0.25 * alpha * alpha)) * D - alpha * 0.5 / "
       "torch.sqrt(sigma * sigma + 0.25 * alpha * alpha) * E"}};
  for (const auto& [prediction, output] : outputs) {
    save(vp_forward("1.0 - time", output), torch::kDouble);
    const json document = card(prediction, kVp, {{"convention", "noise-to-data"}});
    expect_same_samples(document, parse_prediction(prediction), "uniform-t:end=0.99", 1e-9);
    expect_same_samples(document, parse_prediction(prediction), "uniform-t:end=0.99", 1e-4,
                        torch::kFloat);
  }
}

TEST_F(TorchScript, EveryTimeConventionGivesTheAnalyticSamples) {
  // Each network turns its own time back into s = 1 - t.
  const std::string from_rho =
      "(torch.sqrt(0.0025 + 19.9 * 0.5 * torch.log(1.0 + rho * rho)) - 0.05) / 9.95";
  const auto with_rho = [&](const std::string& rho) {
    std::string text = from_rho;
    for (size_t at; (at = text.find("rho")) != std::string::npos;) text.replace(at, 3, rho);
    return text;
  };
  const std::vector<std::pair<json, std::string>> conventions = {
      {{{"convention", "noise-to-data"}, {"scale", 1000}}, "1.0 - time / 1000.0"},
      {{{"convention", "data-to-noise"}}, "time"},
      {{{"convention", "data-to-noise"}, {"scale", 999}}, "time / 999.0"},
      {{{"convention", "index"}, {"levels", kLevels}}, "(time + 1.0) / 1000.0"},
      {{{"convention", "sigma"}}, with_rho("time")},
      {{{"convention", "log-sigma"}}, with_rho("torch.exp(4.0 * time)")}};
  for (const auto& [time, source] : conventions) {
    save(vp_forward(source, "E"), torch::kDouble);
    expect_same_samples(card("noise", kVp, time), Prediction::noise, "uniform-t:end=0.99", 1e-9);
  }
}

TEST_F(TorchScript, IntegerTimesAreRoundedAndPassedAsIntegers) {
  save(vp_forward("(time.to(x.dtype) + 1.0) / 1000.0", "E"), torch::kDouble);
  const json document =
      card("noise", kVp, {{"convention", "index"}, {"levels", kLevels}, {"integer", true}});
  // On times that are indices, and with Euler so that no stage lies between them.
  const ModelPtr loaded = load(document);
  const ModelPtr analytic =
      mixture_model(testing::small_mixture(kDimension, 4, 2), vp_schedule(), Prediction::noise);
  const auto x = testing::starting_noise(*analytic, 3);
  const auto labels = torch::full({3}, 2, torch::kLong);
  const auto at = [&](const ModelPtr& model, double t) {
    return model->predict(x, torch::full({3}, t, torch::kDouble),
                          {{"y", labels}, {"class", labels}});
  };
  EXPECT_LT(relative_error(at(loaded, 0.5), at(analytic, 0.5)), 1e-10);
  EXPECT_LT(relative_error(at(loaded, 0.5002), at(analytic, 0.5)), 1e-10);
}

TEST_F(TorchScript, GradientsInStateAndTimeAreThoseOfTheAnalyticModel) {
  save(vp_forward("time / 1000.0", "E"), torch::kDouble);
  const json document = card("noise", kVp, {{"convention", "data-to-noise"}, {"scale", 1000}});
  const ModelPtr analytic =
      mixture_model(testing::small_mixture(kDimension, 4, 2), vp_schedule(), Prediction::noise);
  const auto labels = torch::tensor({0, 1, 2}, torch::kLong);
  const auto gradients = [&](const ModelPtr& model) {
    auto x = testing::starting_noise(*analytic, 3).requires_grad_();
    auto t = torch::full({3}, 0.4, torch::kDouble).requires_grad_();
    const auto c = normal_noise(9, 0, 3, {kDimension});
    (VelocityField(model).velocity(x, t, {{"y", labels}, {"class", labels}}) * c).sum().backward();
    return std::make_pair(x.grad(), t.grad());
  };
  const auto got = gradients(load(document)), expected = gradients(analytic);
  EXPECT_LT(relative_error(got.first, expected.first), 1e-9);
  EXPECT_LT(relative_error(got.second, expected.second), 1e-9);
}

TEST_F(TorchScript, HalfPrecisionWeightsAreConverted) {
  save("def forward(self, x, time, y):\n    return x + self.means[0].to(x.dtype)\n", torch::kHalf);
  const json document = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    const ModelPtr model = load(document, dtype);
    const auto u =
        model->predict(torch::zeros({2, kDimension}), torch::zeros({2}, torch::kDouble), {});
    EXPECT_EQ(u.scalar_type(), dtype);
    EXPECT_LT(
        relative_error(u[0].to(torch::kDouble), testing::small_mixture(kDimension, 4, 2).means[0]),
        1e-2);
  }
}

TEST_F(TorchScript, SplitsABatchThatDoesNotFit) {
  // A module that cannot take more than three samples, with the message LibTorch gives.
  save(R"(
def forward(self, x, time, y):
    assert x.size(0) <= 3, "DefaultCPUAllocator: can't allocate memory: you tried to allocate"
    return x * 2.0
)");
  const json document = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  const ModelPtr model = load(document, torch::kFloat);
  const auto x = torch::rand({11, kDimension});
  // Where gradients are wanted the whole graph is needed: that fails as LibTorch fails.
  EXPECT_THROW(model->predict(x, torch::zeros({11}, torch::kDouble), {}), std::exception);
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(model->predict(x, torch::zeros({11}, torch::kDouble), {}), 2 * x));
  save(
      "def forward(self, x, time, y):\n    assert False, \"CUDA out of memory\"\n    return "
      "x\n");
  try {
    load(document)->predict(x, torch::zeros({11}, torch::kDouble), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 4);
  }
}

// One sentence with `expected` in it, and exit code 3.
template <class Action>
void expect_refused(Action action, const std::string& expected) {
  try {
    action();
    ADD_FAILURE() << "accepted what should say: " << expected;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3) << error.what();
    EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

TEST_F(TorchScript, SaysWhatIsWrongWithTheWeights) {
  json document = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  const auto loading = [&] { load(document); };
  expect_refused(loading, "No such file");
  save("def forward(self, x, time, y):\n    return x\n");
  const std::string content = read_file(folder_ / "weights.pt");
  document["weights_sha256"] = sha256(content);
  EXPECT_NO_THROW(loading());
  document["weights_sha256"] = std::string(64, '0');
  expect_refused(loading, "is not the file the card was written for");
  document.erase("weights_sha256");
  write_file_atomically(folder_ / "weights.pt", content.substr(0, content.size() / 2));
  expect_refused(loading, "truncated");
  write_file_atomically(folder_ / "weights.pt", "import torch\n");
  expect_refused(loading, "not a TorchScript file");
  torch::save(torch::ones({3}), (folder_ / "weights.pt").string());
  EXPECT_THROW(
      load(document)->predict(torch::zeros({1, kDimension}), torch::zeros({1}, torch::kDouble), {}),
      Error);
  document["format"] = "onnx";
  expect_refused(loading, "the formats are: torchscript, aotinductor");
}

// LibTorch would read beyond the end of a record that is too short for its weight.
TEST_F(TorchScript, RefusesWeightsWhoseRecordsAreShort) {
  const json document = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  save("def forward(self, x, time, y):\n    return x\n");
  std::vector<testing::ZipEntry> entries;
  try {
    const ZipArchive archive(folder_ / "weights.pt");
    for (size_t i = 0; i < archive.names().size(); ++i) {
      entries.push_back({archive.names()[i], archive.read(i)});
    }
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  int shortened = 0;
  for (const testing::ZipEntry& entry : entries) {
    if (entry.name.find("/data/") == std::string::npos) continue;
    auto changed = entries;
    for (auto& other : changed) {
      if (other.name == entry.name) other.content.resize(other.content.size() / 2);
    }
    write_file_atomically(folder_ / "weights.pt", testing::zip_bytes(changed));
    expect_refused([&] { load(document); }, "it is damaged, a weight of");
    ++shortened;
  }
  EXPECT_GE(shortened, 3);
  write_file_atomically(folder_ / "weights.pt", testing::zip_bytes(entries));
  EXPECT_NO_THROW(load(document));
}

TEST_F(TorchScript, SaysWhatIsWrongWithTheCall) {
  const json document = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  const auto calling = [&] {
    load(document)->predict(torch::zeros({2, kDimension}), torch::zeros({2}, torch::kDouble), {});
  };
  save("def forward(self, x, time, y):\n    return x[:, :3]\n");
  expect_refused(calling, "shape 2x3 for an input of shape 2x6, the card says 2x6");
  save("def forward(self, x, time, y):\n    return torch.mm(x, x)\n");
  expect_refused(calling, "failed when it was called as the card says");
  save("def forward(self, x, time):\n    return x\n");
  expect_refused(calling, "takes 2 arguments (x, time), the card gives it 3 (x, the time, y)");
  save("def forward(self, x, time, y, z):\n    return x\n");
  expect_refused(calling, "takes 4 arguments (x, time, y, z), the card gives it 3");
  save("def forward(self, x, time, y, z: int = 3):\n    return x\n");
  EXPECT_NO_THROW(calling());
  save("def other(self, x):\n    return x\n");
  expect_refused(calling, "has no method forward");
  save("def forward(self, x, time, y):\n    return y\n");
  expect_refused(calling, "returned a dense tensor of Long numbers and shape 2");
  save("def forward(self, x, time, y):\n    return x.to_sparse()\n");
  expect_refused(calling, "returned a sparse tensor");
  save("def forward(self, x, time, y):\n    assert x.size(0) == 0, ''\n    return x\n");
  expect_refused(calling, "it gave no reason");
  json strict = document;
  strict["conditions"][0].erase("null");
  save("def forward(self, x, time, y):\n    return x\n");
  expect_refused(
      [&] {
        load(strict)->predict(torch::zeros({2, kDimension}), torch::zeros({2}, torch::kDouble), {});
      },
      "needs the condition 'y'");
}

// No message shows where in LibTorch's sources an exception came from.
TEST_F(TorchScript, NoErrorShowsAStackFrame) {
  const json document = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  for (const char* body : {"torch.mm(x, x)", "x.reshape([-1, 7])", "x.to_sparse()",
                           "x.index_select(0, y + 9)", "torch.cat([x, time])"}) {
    save(std::string("def forward(self, x, time, y):\n    return ") + body + "\n");
    try {
      load(document)->predict(torch::zeros({2, kDimension}), torch::zeros({2}, torch::kDouble), {});
      FAIL() << body;
    } catch (const Error& error) {
      const std::string message = error.what();
      for (const char* part : {"frame #", "Exception raised", ".cpp", "\n"}) {
        EXPECT_EQ(message.find(part), std::string::npos) << message;
      }
    }
  }
}

// Networks that write where others read give the samples of those that do not.
TEST_F(TorchScript, NetworksMayWriteIntoTheirInputAndKeepTheirOutput) {
  const json document = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  const auto x0 = torch::randn({4, kDimension}, torch::kFloat);
  const NsSolver solver = make_solver("rk4", {8, fm_ot_schedule()});
  const auto samples = [&](const std::string& body) {
    save("def forward(self, x, time, y):\n" + body);
    const torch::Tensor before = x0.clone();
    const ModelPtr model = load(document, torch::kFloat);
    const torch::Tensor result = sample(solver, VelocityField(model), x0, {});
    EXPECT_TRUE(torch::equal(x0, before)) << body;
    return result;
  };
  const torch::Tensor expected = samples("    return torch.sin(x) + time.unsqueeze(1)\n");
  for (const char* body :
       {"    x.sin_()\n    x.add_(time.unsqueeze(1))\n    return x\n",
        "    r = torch.sin(x) + time.unsqueeze(1)\n    x.zero_()\n    time.zero_()\n    return r\n",
        "    self.means.copy_(torch.sin(x) + time.unsqueeze(1))\n    return self.means\n",
        "    self.means.copy_(torch.sin(x) + time.unsqueeze(1))\n    return self.means[:]\n"}) {
    EXPECT_TRUE(torch::equal(samples(body), expected)) << body;
  }
  const auto habits_of = [&](const std::string& body) {
    save("def forward(self, x, time, y):\n" + body);
    const ModelCard read = parse_model_card(document.dump(), folder_ / "model.json");
    const NetworkPtr network = load_network(read, {torch::kCPU, torch::kFloat});
    const torch::NoGradGuard no_grad;
    network_model(network, read)->predict(x0, torch::full({4}, 0.5, torch::kDouble), {});
    return network_habits(*network);
  };
  EXPECT_FALSE(habits_of("    return torch.sin(x)\n").writes_input);
  EXPECT_FALSE(habits_of("    return torch.sin(x)\n").returns_buffer);
  EXPECT_FALSE(habits_of("    return x\n").returns_buffer);
  EXPECT_TRUE(habits_of("    return x.sin_()\n").writes_input);
  EXPECT_FALSE(
      habits_of("    return torch.sin(x).reshape([-1]).reshape(x.shape)\n").returns_buffer);
  EXPECT_TRUE(habits_of("    return self.means[:]\n").returns_buffer);
  EXPECT_TRUE(habits_of("    return self.means\n").returns_buffer);
}

TEST_F(TorchScript, RefusesEachMistakeInACard) {
  const json good = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  const auto refused = [&](const std::function<void(json&)>& change, const std::string& expected) {
    json document = good;
    change(document);
    expect_refused([&] { parse_model_card(document.dump(), "model.json"); }, expected);
  };
  EXPECT_NO_THROW(parse_model_card(good.dump(), "model.json"));
  expect_refused([] { parse_model_card("{", "model.json"); }, "not a JSON file");
  for (const auto& key : {"format", "weights", "sample_shape", "prediction", "schedule", "time"}) {
    refused([&](json& d) { d.erase(key); }, std::string("key \"") + key + "\" is missing");
  }
  refused([](json& d) { d["predictoin"] = 1; }, "did you mean 'prediction'?");
  refused([](json& d) { d["prediction"] = "epsylon"; }, "unknown prediction 'epsylon'");
  refused([](json& d) { d["schedule"] = {{"name", "vpp"}}; }, "did you mean 'vp'?");
  refused([](json& d) { d["sample_shape"] = {3, -1}; }, "sample_shape[1]");
  refused([](json& d) { d["sample_shape"] = 3; }, "sample_shape");
  refused([](json& d) { d["value_range"] = {1, -1}; }, "value_range");
  refused([](json& d) { d["time"] = {{"convention", "backwards"}}; }, "unknown time convention");
  refused([](json& d) { d["time"] = {{"convention", "index"}}; }, "\"levels\"");
  refused([](json& d) { d["time"]["levels"] = 1000; }, "\"levels\"");
  refused([](json& d) { d["time"]["integer"] = true; }, "\"integer\"");
  refused([](json& d) { d["time"]["scale"] = 0; }, "scale must not be 0");
  refused([](json& d) { d["conditions"][0]["clases"] = 3; }, "did you mean 'classes'?");
  refused([](json& d) { d["conditions"][0]["null"] = "none"; }, "conditions[0].null");
  refused([](json& d) { d["conditions"] = 3; }, "must be a list");
  refused([](json& d) { d["conditions"][0]["name"] = "a=b"; }, "conditions[0].name: must not");
  refused([](json& d) { d["conditions"][0]["name"] = ""; }, "conditions[0].name: must not");
  refused([](json& d) { d["conditions"][0]["name"] = "guidance w"; }, "choose another name");
  refused([](json& d) { d["conditions"].push_back(d["conditions"][0]); }, "conditions[1]");
  refused([](json& d) { d["conditions"][0]["shape"] = {3}; }, "either \"classes\"");
  refused(
      [](json& d) {
        d["conditions"][0] = {{"name", "c"}, {"shape", {3}}, {"dtype", "int8"}};
      },
      "conditions[0].dtype");
  refused([](json& d) { d["decoder"] = {{"weights", "d.pt"}}; }, "key \"sample_shape\" is missing");
  refused(
      [](json& d) {
        d["decoder"] = {{"weights", "d.pt"}, {"sample_shape", {3}}, {"scale", 0}};
      },
      "decoder.scale");
  refused(
      [](json& d) {
        d["encoder"] = {{"weights", "e.pt"}};
      },
      "encoder: is of a model of sounds");
  const auto fill_gaps = [](json& d) {
    d["sample_shape"] = {2, 16};
    d["sample_rate"] = 8000;
    d["decoder"] = {{"weights", "d.pt"}, {"sample_shape", {1, 1280}}};
    d["encoder"] = {{"weights", "e.pt"}, {"margin", 3}, {"level", 0.1}};
    d["conditions"] = {{{"name", "visible"}, {"shape", {2, 16}}, {"null", "zeros"}},
                       {{"name", "known"}, {"shape", {1, 16}}, {"null", "zeros"}}};
  };
  json filler = good;
  fill_gaps(filler);
  EXPECT_EQ(parse_model_card(filler.dump(), "model.json").encoder->margin, 3);
  const auto refused_filler = [&](const auto& change, const std::string& expected) {
    refused(
        [&](json& d) {
          fill_gaps(d);
          change(d);
        },
        expected);
  };
  refused_filler([](json& d) { d["encoder"].erase("weights"); }, "key \"weights\" is missing");
  refused_filler([](json& d) { d["encoder"]["margin"] = -1; }, "encoder.margin");
  refused_filler([](json& d) { d["encoder"]["level"] = -1; }, "encoder.level");
  refused_filler([](json& d) { d["encoder"]["hop"] = 80; }, "hop");
  refused_filler([](json& d) { d["conditions"].erase(1); }, "has the conditions \"visible\"");
  refused_filler([](json& d) { d["decoder"]["sample_shape"] = {1, 1281}; }, "frames of one length");
  refused([](json& d) { d["sample_rate"] = 0; }, "sample_rate");
  refused([](json& d) { d["input_scaling"] = "unit"; }, "input_scaling");
}

TEST_F(TorchScript, SaysHowItCountsTimeAsTheCardDoes) {
  const auto said = [&](const json& time, const std::string& scaling) {
    json document = card("noise", {{"name", "ddpm-linear"}}, time);
    document["input_scaling"] = scaling;
    const ModelCard read = parse_model_card(document.dump(), "model.json");
    return describe(read.time, read.input_scaling);
  };
  for (const json& time :
       {json{{"convention", "data-to-noise"}}, json{{"convention", "sigma"}, {"scale", 2.5}},
        json{{"convention", "index"}, {"levels", 1000}, {"integer", true}}}) {
    EXPECT_EQ(said(time, "none"), time);
  }
  EXPECT_EQ(said({{"convention", "log-sigma"}}, "edm"),
            (json{{"convention", "log-sigma"}, {"input_scaling", "edm"}}));
}

TEST_F(TorchScript, EveryDocumentedCardIsValid) {
  const std::string page = read_file(BESPOKE_SOURCE_DIR "/docs/reference/model-card.md");
  const std::string opening = "```json\n";
  int found = 0;
  for (size_t at = 0; (at = page.find(opening, at)) != std::string::npos; ++found) {
    at += opening.size();
    const std::string text = page.substr(at, page.find("```", at) - at);
    EXPECT_NO_THROW(parse_model_card(text, "model.json")) << text;
  }
  EXPECT_EQ(found, 14);
}

TEST_F(TorchScript, RefusesImpossibleCombinations) {
  const auto refused = [&](const json& document, const std::string& expected) {
    expect_refused([&] { parse_model_card(document.dump(), "model.json"); }, expected);
  };
  refused(card("data", {{"name", "fm-ot"}}, {{"convention", "sigma"}}), "time.convention");
  refused(card("noise", {{"name", "ddpm-linear"}}, {{"convention", "index"}, {"levels", 500}}),
          "time.levels: is 500, the schedule has 1000 levels");
  json image = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  image["sample_shape"] = {3, 32, 32};
  image["sample_rate"] = 8000;
  refused(image, "sample_rate");
}

TEST_F(TorchScript, PassesTensorConditionsInTheCardsOrder) {
  save(R"(
def forward(self, x, time, text, size):
    return x + text.sum(2).sum(1, keepdim=True) + 10.0 * size.to(x.dtype).sum(1, keepdim=True)
)");
  json document = card("velocity", {{"name", "fm-ot"}}, {{"convention", "noise-to-data"}});
  document["conditions"] = {{{"name", "text"}, {"shape", {2, 3}}, {"null", "zeros"}},
                            {{"name", "size"}, {"shape", {2}}, {"dtype", "int64"}}};
  const ModelPtr model = load(document, torch::kFloat);
  const auto text = torch::rand({2, 2, 3}, torch::kDouble);
  const auto size = torch::tensor({{1, 2}, {3, 4}}, torch::kLong);
  const auto got = model->predict(torch::zeros({2, kDimension}), torch::zeros({2}, torch::kDouble),
                                  {{"text", text}, {"size", size}});
  const auto expected = text.sum(2).sum(1) + 10 * size.sum(1);
  EXPECT_LT(relative_error(got.select(1, 0).to(torch::kDouble), expected), 1e-6);
  expect_refused(
      [&] {
        model->predict(torch::zeros({2, kDimension}), torch::zeros({2}, torch::kDouble),
                       {{"text", text}});
      },
      "needs the condition 'size'");
}

TEST_F(TorchScript, ScalesTheInputAsEdmDoes) {
  // F of EDM's own form, given c_in x and c_noise = log(sigma) / 4.
  save(R"(
def forward(self, x, time, y):
    sigma = torch.exp(4.0 * time).unsqueeze(1)
    root = torch.sqrt(sigma * sigma + 0.25)
    D = self.data(x * root, torch.ones_like(sigma), sigma, y)
    return (D - 0.25 / (sigma * sigma + 0.25) * (x * root)) * root / (0.5 * sigma)
)",
       torch::kDouble);
  json document = card("edm", {{"name", "edm"}}, {{"convention", "log-sigma"}});
  document["input_scaling"] = "edm";
  expect_same_samples(document, Prediction::edm, "karras", 1e-8);
}

// What comes behind the prediction is left out, in either layout.
TEST_F(TorchScript, TakesThePredictionOutOfWhatTheNetworkReturns) {
  json document = card("noise", kVp, {{"convention", "noise-to-data"}});
  document.erase("conditions");
  document["sample_shape"] = {2, 3, 4};
  const auto x = torch::rand({5, 2, 3, 4}), t = torch::rand({5}, torch::kDouble);
  save("def forward(self, x, time):\n    return torch.cat([2.0 * x, x.exp()], 1)\n");
  expect_refused([&] { load(document, torch::kFloat)->predict(x, t, {}); }, "extra_channels");
  document["extra_channels"] = 2;
  EXPECT_TRUE(torch::equal(load(document, torch::kFloat)->predict(x, t, {}), 2 * x));

  save(R"(
def forward(self, x, time):
    assert x.size(3) == 2
    return torch.cat([2.0 * x, x[:, :, :, :1]], 3)
)");
  document["layout"] = "channels-last";
  document["extra_channels"] = 1;
  EXPECT_TRUE(torch::equal(load(document, torch::kFloat)->predict(x, t, {}), 2 * x));
  document["layout"] = "channels";
  expect_refused([&] { load(document); }, "layout");
}

TEST_F(TorchScript, CallsANetworkWithoutATime) {
  save("def forward(self, x, y):\n    return 3.0 * x\n");
  json document = card("data", {{"name", "edm"}, {"sigma_max", 10}}, {{"convention", "none"}});
  const auto x = torch::rand({5, kDimension}), t = torch::rand({5}, torch::kDouble);
  const Conditions given = {{"y", torch::zeros({5}, torch::kLong)}};
  EXPECT_TRUE(torch::equal(load(document, torch::kFloat)->predict(x, t, given), 3 * x));
  document["time"] = {{"convention", "noise-to-data"}};
  expect_refused([&] { load(document); }, "takes 2 arguments");
  document["time"] = {{"convention", "none"}, {"scale", 2}};
  expect_refused([&] { load(document); }, "takes no time");
}

// The time of a part of a path is that of the whole.
TEST_F(TorchScript, APartOfAPathCountsTimeAsTheWhole) {
  save(vp_forward("1.0 - time", "-E / sigma"), torch::kDouble);
  const json whole = card("score", kVp, {{"convention", "noise-to-data"}});
  json part = whole;
  part["schedule"]["start"] = 0.1;
  part["schedule"]["end"] = 0.9;
  const auto x = torch::rand({3, kDimension}, torch::kDouble);
  const Conditions given = {{"y", torch::zeros({3}, torch::kLong)}};
  for (const double t : {0.0, 0.25, 1.0}) {
    EXPECT_LT(relative_error(load(part)->predict(x, testing::times(3, t), given),
                             load(whole)->predict(x, testing::times(3, 0.1 + 0.8 * t), given)),
              1e-12);
  }
  expect_same_samples(part, Prediction::score, "uniform-t", 1e-9);
}

TEST_F(TorchScript, ACardsClipIsThatOfItsField) {
  save(vp_forward("1.0 - time", "E"), torch::kDouble);
  json document = card("eps", kVp, {{"convention", "noise-to-data"}});
  document["value_range"] = {-0.3, 0.2};
  document["clip"] = true;
  const ModelPtr model = load(document);
  EXPECT_EQ(model->prediction(), Prediction::data);
  const auto data =
      model->predict(3 * torch::randn({8, kDimension}, torch::kDouble), testing::times(8, 0.3), {});
  EXPECT_EQ(data.max().item<double>(), 0.2);
  EXPECT_EQ(data.min().item<double>(), -0.3);
}

TEST_F(TorchScript, EncodesToScaledAndShiftedLatents) {
  save("def forward(self, x):\n    return x.reshape(x.size(0), 2, 3)\n");
  ModelCard filler;
  filler.sample_shape = {2, 3};
  filler.decoder = DecoderCard();
  filler.decoder->scale = 0.5;
  filler.decoder->shift = 1;
  filler.encoder = EncoderCard();
  filler.encoder->weights = folder_ / "weights.pt";
  const torch::Tensor x = torch::rand({4, 1, 6});
  EXPECT_TRUE(torch::allclose(Encoder(filler, {}).encode(x), (x.reshape({4, 2, 3}) - 1) / 2));
  filler.sample_shape = {3, 3};
  expect_refused([&] { Encoder(filler, {}).encode(x); }, "the card says 4x3x3");
}

TEST_F(TorchScript, DecodesScaledAndShiftedLatents) {
  save("def forward(self, z):\n    return torch.stack([z, 2.0 * z], 1)\n");
  DecoderCard decoder_card;
  decoder_card.weights = folder_ / "weights.pt";
  decoder_card.scale = 0.5;
  decoder_card.shift = 1;
  decoder_card.sample_shape = {2, 3};
  const Decoder decoder(decoder_card, {});
  auto z = torch::rand({4, 3}).requires_grad_();
  const auto image = decoder.decode(z);
  EXPECT_TRUE(torch::allclose(image.select(1, 1), 2 * (2 * z + 1)));
  image.sum().backward();
  EXPECT_TRUE(torch::allclose(z.grad(), torch::full({4, 3}, 6.0f)));
  decoder_card.sample_shape = {3, 3};
  expect_refused([&] { Decoder(decoder_card, {}).decode(z); }, "the card says 4x3x3");
}

}  // namespace
}  // namespace bespoke
