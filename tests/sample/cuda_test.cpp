// The same samples on the GPU. Skipped, saying so, where there is none.

#include <gtest/gtest.h>

#include "bespoke/model/card.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/network.h"
#include "bespoke/sample/adjoint.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/on_outputs.h"
#include "bespoke/sample/reference.h"
#include "bespoke/sample/repeated_sampler.h"
#include "bespoke/sample/sampler.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/combine.h"
#include "support.h"

namespace bespoke {
namespace {

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device here";
  }
};

TEST_F(Cuda, CombineAgreesWithTheCpu) {
  std::vector<torch::Tensor> terms, on_device;
  for (uint64_t j = 0; j < 4; ++j) {
    terms.push_back(normal_noise(j, 0, 3, {500}));
    on_device.push_back(terms.back().to(torch::kCUDA));
  }
  torch::Tensor out = torch::empty_like(terms[0]), device_out = torch::empty_like(on_device[0]);
  EXPECT_TRUE(combine(out, terms, {1, -2, 0.5, 3}));
  EXPECT_TRUE(combine(device_out, on_device, {1, -2, 0.5, 3}));
  EXPECT_LT(testing::relative_error(device_out.cpu(), out), 1e-14);
  on_device[2][1][7] = std::nan("");
  EXPECT_FALSE(combine(device_out, on_device, {1, -2, 0.5, 3}));
}

TEST_F(Cuda, SamplesAndReferenceAgreeWithTheCpu) {
  for (const auto prediction : {Prediction::velocity, Prediction::noise, Prediction::data}) {
    const ModelPtr model =
        mixture_model(testing::small_mixture(6, 4, 2), vp_schedule(), prediction);
    const auto x0 = testing::starting_noise(*model, 7);
    const Conditions labels = {{"class", torch::arange(7, torch::kLong) % 3}};
    const VelocityField field(model);
    const NsSolver solver = make_solver("dpm++2m", {8, vp_schedule(), ""});
    EXPECT_LT(testing::relative_error(sample(solver, field, x0.to(torch::kCUDA), labels).cpu(),
                                      sample(solver, field, x0, labels)),
              1e-11);
    ReferenceOptions options;
    options.tolerances = {1e-8, 1e-8};
    const auto here = reference(model, x0, labels, options);
    const auto there = reference(model, x0.to(torch::kCUDA), labels, options);
    EXPECT_LT(testing::relative_error(there.x.cpu(), here.x), 1e-7);
    EXPECT_TRUE(torch::equal(there.evaluations, here.evaluations));
  }
}

// An embedded network with its calls replayed as graphs, and launched one by one.
struct BothWays {
  explicit BothWays(const std::string& name)
      : card(read_model_card(BESPOKE_SOURCE_DIR "/models/" + name + ".json")) {
    NetworkOptions options;
    options.device = torch::Device(torch::kCUDA, 0);
    options.on_note = [this](const std::string& note) { notes.push_back(note); };
    graphs = load_model(card, options);
    options.graphs = false;
    plain = load_model(card, options);
  }

  torch::Tensor noise(int64_t count) const {
    return testing::starting_noise(*plain, count).to(torch::kCUDA, torch::kFloat);
  }

  ModelCard card;
  std::vector<std::string> notes;
  ModelPtr graphs, plain;
};

Conditions classes(int64_t count) { return {{"y", torch::arange(count, torch::kLong)}}; }

TEST_F(Cuda, GraphsChangeNothing) {
  for (const std::string name : {"cifar10-fm-ot", "cifar10-eps-vp"}) {
    const BothWays ways(name);
    const auto x0 = ways.noise(10);
    const Conditions labels = classes(10);
    const NsSolver solver =
        make_solver("dpm++2m", {8, ways.card.schedule, "lambda-range:from=-4.3,to=4.5"});
    Batching batching;
    batching.batch = 4;  // and a last batch of 2
    const auto samples = [&](const ModelPtr& model) {
      const SolverOnField run = on_outputs(solver, model);
      return sample_in_batches(run.solver, *run.field, x0, labels, batching);
    };
    const auto expected = samples(ways.plain);
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_LT(testing::relative_error(samples(ways.graphs), expected), 1e-3) << name;
    }
    const auto truth = [&](const ModelPtr& model) {
      return reference_in_batches(model, x0, labels, {1e-4, 1e-4}, batching).x;
    };
    EXPECT_LT(testing::relative_error(truth(ways.graphs), truth(ways.plain)), 1e-2) << name;
    EXPECT_EQ(ways.notes, std::vector<std::string>()) << name;
  }
}

// Whole samples as one graph, guided too, and with other noise and classes than those recorded.
TEST_F(Cuda, RecordedSamplesAreThoseOfTheSampler) {
  for (const std::string name : {"cifar10-fm-ot", "cifar10-eps-vp"}) {
    const BothWays ways(name);
    const NsSolver solver = make_solver("dpm++2m", {6, ways.card.schedule, ""});
    const Conditions null = {{"y", torch::full({1}, 10, torch::kLong)}};
    for (const double w : {0.0, 2.0}) {
      const auto run_of = [&](const ModelPtr& model) {
        return on_outputs(solver, w == 0 ? model : guided_model(model, w, null));
      };
      const SolverOnField run = run_of(ways.graphs), plain = run_of(ways.plain);
      std::vector<std::string> notes;
      RepeatedSampler sampler(run.solver, *run.field, torch::Device(torch::kCUDA, 0),
                              [&](const std::string& note) { notes.push_back(note); });
      for (int repeat = 0; repeat < 16; ++repeat) {
        const auto x0 = ways.noise(3) * (1 - 0.01 * repeat);
        const Conditions labels = {
            {"y", (torch::arange(3, torch::kLong) + repeat % 7).to(torch::kCUDA)}};
        EXPECT_LT(testing::relative_error(sampler.sample(x0, labels),
                                          sample(plain.solver, *plain.field, x0, labels)),
                  1e-3)
            << name << " w " << w << " repeat " << repeat;
      }
      EXPECT_EQ(notes, std::vector<std::string>()) << name;
    }
  }
}

// The sweep back over a solver's steps, with gradients by graphs and launched one by one.
TEST_F(Cuda, GraphsChangeNoGradient) {
  const BothWays ways("cifar10-fm-ot");
  const auto x0 = ways.noise(4);
  const NsSolver solver = make_solver("midpoint", {8, ways.card.schedule, ""});
  const auto rows = [&](const ModelPtr& model) {
    const VelocityField field(model);
    Counts counts;
    Trajectory run = run_trajectory(solver, field, x0, classes(4), &counts);
    const torch::Tensor cotangent = run.x.back().clone();
    return sweep_back(std::move(run), cotangent, &counts);
  };
  const torch::Tensor expected = rows(ways.plain);
  for (int repeat = 0; repeat < 4; ++repeat) {
    EXPECT_LT(testing::relative_error(rows(ways.graphs), expected), 1e-3) << repeat;
  }
  EXPECT_EQ(ways.notes, std::vector<std::string>());
}

}  // namespace
}  // namespace bespoke
