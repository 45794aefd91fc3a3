#include "bespoke/sample/repeated_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "bespoke/base/error.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/tensor/recording.h"
#include "bespoke/tensor/transfer.h"
#include "support.h"

namespace bespoke {
namespace {

constexpr int kBefore = static_cast<int>(CallGraphs::kCallsBefore);

// u = -x + shift, with its calls counted.
class ShiftedField : public Field {
 public:
  torch::Tensor velocity(const torch::Tensor& x, const torch::Tensor& t,
                         const Conditions& conditions) const override {
    ++calls;
    if (sends) refuse_while_recording("numbers are sent");
    const double spoil = t[0].item<double>() > 0.4 ? spoilt : 0;
    return conditions.at("shift").unsqueeze(1) - x + spoil;
  }
  bool can_be_recorded() const override { return recordable; }

  mutable int calls = 0;
  bool recordable = true, sends = false;
  double spoilt = 0;
};

// Records by keeping the call, as a device would its kernels.
struct KeptCall : RecordedCall {
  explicit KeptCall(const TensorCall& call) : call(call) {}
  torch::Tensor replay(const std::vector<torch::Tensor>& arguments) override {
    const RecordingScope kernels_alone;
    return call(arguments);
  }
  TensorCall call;
};

struct Sampling {
  NsSolver solver = make_solver("ab2", {5, fm_ot_schedule(), ""});
  ShiftedField field;
  torch::Tensor x0 = normal_noise(3, 0, 4, {6});
  Conditions conditions = {{"shift", torch::arange(4, torch::kDouble)}};
  int recordings = 0;
  std::vector<std::string> notes;
  RepeatedSampler sampler{solver, field,
                          [this](const std::vector<torch::Tensor>& arguments,
                                 const TensorCall& call) -> std::unique_ptr<RecordedCall> {
                            ++recordings;
                            const RecordingScope recording;
                            call(arguments);
                            return std::make_unique<KeptCall>(call);
                          },
                          [this](const std::string& note) { notes.push_back(note); }};

  int steps_told = 0;
  torch::Tensor draw() {
    return sampler.sample(
        x0, conditions, [this](const StepInfo&) { ++steps_told; }, 10);
  }
};

TEST(RepeatedSampler, DrawsWhatTheSamplerDrawsBeforeAndAfterItRecords) {
  Sampling sampling;
  sampling.solver.start_scale = 1;
  const auto expected = sample(sampling.solver, sampling.field, sampling.x0, sampling.conditions);
  for (int i = 0; i < kBefore + 1; ++i) {
    EXPECT_EQ(sampling.recordings, 0);
    EXPECT_LT(testing::relative_error(sampling.draw(), expected), 1e-14);
  }
  EXPECT_EQ(sampling.recordings, 1);
  EXPECT_EQ(sampling.steps_told, 5 * kBefore);  // not of the replayed one
}

TEST(RepeatedSampler, ReplaysAreOfTheNoiseAndConditionsGiven) {
  Sampling sampling;
  for (int i = 0; i < kBefore + 1; ++i) sampling.draw();
  sampling.x0 = normal_noise(4, 0, 4, {6});
  sampling.conditions["shift"] = torch::arange(4, torch::kDouble) * -2;
  const auto expected = sample(sampling.solver, sampling.field, sampling.x0, sampling.conditions);
  EXPECT_LT(testing::relative_error(sampling.draw(), expected), 1e-14);
}

TEST(RepeatedSampler, ABatchThatIsNotFiniteIsDrawnAgainForItsMessage) {
  Sampling sampling;
  for (int i = 0; i < kBefore + 1; ++i) sampling.draw();
  sampling.field.spoilt = std::nan("");
  try {
    sampling.draw();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::diverged);
    EXPECT_NE(std::string(error.what()).find("step 4 of 5"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("sample 10"), std::string::npos) << error.what();
  }
}

TEST(RepeatedSampler, SaysOnceWhyItCannotRecordAndGoesOn) {
  Sampling sampling;
  sampling.field.sends = true;
  const auto expected = sample(sampling.solver, sampling.field, sampling.x0, sampling.conditions);
  for (int i = 0; i < kBefore + 3; ++i) {
    EXPECT_LT(testing::relative_error(sampling.draw(), expected), 1e-14);
  }
  ASSERT_EQ(sampling.notes.size(), 1u);
  EXPECT_NE(sampling.notes[0].find("numbers are sent"), std::string::npos) << sampling.notes[0];
  EXPECT_EQ(sampling.steps_told, 5 * (kBefore + 3));
}

TEST(RepeatedSampler, LeavesFieldsAloneThatCannotBeRecorded) {
  Sampling sampling;
  sampling.field.recordable = false;
  for (int i = 0; i < kBefore + 2; ++i) sampling.draw();
  EXPECT_EQ(sampling.recordings, 0);
  EXPECT_EQ(sampling.steps_told, 5 * (kBefore + 2));
}

TEST(Recording, RefusesWhatTheCpuWouldHaveToDoAgain) {
  EXPECT_FALSE(is_recording());
  refuse_while_recording("nothing is recorded");
  {
    const RecordingScope outer;
    const RecordingScope inner;
    EXPECT_TRUE(is_recording());
    EXPECT_THROW(refuse_while_recording("sent"), std::runtime_error);
  }
  EXPECT_FALSE(is_recording());
}

TEST(Recording, CallGraphsWithinARecordingArePartOfIt) {
  int recordings = 0, calls = 0;
  CallGraphs graphs([&](const std::vector<torch::Tensor>&, const TensorCall& call) {
    ++recordings;
    return std::make_unique<KeptCall>(call);
  });
  const RecordingScope recording;
  for (int i = 0; i < kBefore + 3; ++i) {
    graphs.call({torch::zeros({2})}, [&](const std::vector<torch::Tensor>& given) {
      ++calls;
      return given[0] + 1;
    });
  }
  EXPECT_EQ(recordings, 0);
  EXPECT_EQ(calls, kBefore + 3);
}

}  // namespace
}  // namespace bespoke
