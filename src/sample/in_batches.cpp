#include "bespoke/sample/in_batches.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/model/guidance.h"
#include "bespoke/sample/repeated_sampler.h"
#include "bespoke/tensor/tensor_bytes.h"

namespace bespoke {

using namespace detail;

namespace {

// work(begin, end, report) over all samples.
template <class Work>
void in_fitting_batches(int64_t count, const Batching& batching, Work work) {
  int64_t batch = batching.batch;
  for (int64_t begin = 0; begin < count; begin += batch) {
    batch = within_memory(std::min(batch, count - begin), batching.on_less, [&](int64_t size) {
      const auto report = [&](double done) {
        if (!batching.on_progress) return;
        batching.on_progress((static_cast<double>(begin) + done * static_cast<double>(size)) /
                             static_cast<double>(count));
      };
      work(begin, begin + size, report);
      return size;
    });
  }
}

// A sample that the reference could not finish.
struct GivenUp {
  int64_t sample;
  std::string why;
};

// What a member found, for the others.
struct Message {
  ReferenceResult result;
  std::vector<GivenUp> given_up;
};

std::string bytes_of(const Message& message) {
  std::vector<torch::Tensor> tensors = {message.result.x, message.result.evaluations};
  const auto& samples = message.result.trajectories.samples();
  for (const RecordedSteps& steps : samples) {
    tensors.push_back(torch::tensor(steps.times, torch::kDouble));
    for (const auto* states : {&steps.states, &steps.slopes, &steps.middles}) {
      tensors.push_back(torch::stack(*states));
    }
  }
  nlohmann::json words = nlohmann::json::array();
  for (const GivenUp& one : message.given_up) words.push_back({one.sample, one.why});
  const std::string head = json_text(words);
  return fmt::format("{} ", head.size()) + head + tensor_bytes(tensors);
}

Message message_of(const std::string& bytes, const TrajectorySpan& span) {
  const size_t begin = bytes.find(' ') + 1, size = std::stoul(bytes);
  Message message;
  for (const auto& one : nlohmann::json::parse(bytes.substr(begin, size))) {
    message.given_up.push_back({one[0], one[1]});
  }
  const auto tensors = tensors_of(bytes.substr(begin + size));
  message.result.x = tensors[0];
  message.result.evaluations = tensors[1];
  std::vector<RecordedSteps> samples;
  for (size_t i = 2; i < tensors.size(); i += 4) {
    const double* times = tensors[i].data_ptr<double>();
    samples.push_back({{times, times + tensors[i].numel()},
                       tensors[i + 1].unbind(),
                       tensors[i + 2].unbind(),
                       tensors[i + 3].unbind()});
  }
  message.result.trajectories = DenseTrajectories(std::move(samples), span);
  return message;
}

ReferenceResult own_reference(const ModelPtr& model, const torch::Tensor& x0,
                              const Conditions& conditions, const Tolerances& tolerances,
                              const Batching& batching, int64_t trajectories) {
  ReferenceOptions options;
  options.tolerances = tolerances;
  options.first_sample = batching.first_sample;
  options.on_progress = batching.on_progress;
  options.batch = batching.batch;
  options.on_less = batching.on_less;
  options.record = trajectories;
  options.on_given_up = batching.on_given_up;
  return reference(model, x0, conditions, options);
}

torch::Tensor own_samples(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                          const Conditions& conditions, const Batching& batching) {
  if (x0.size(0) == 0) return x0.cpu();
  RepeatedSampler sampler(solver, field, x0.device(), batching.on_note);
  std::vector<torch::Tensor> samples;
  in_fitting_batches(x0.size(0), batching, [&](int64_t begin, int64_t end, const auto& report) {
    const auto on_step = [&](const StepInfo& info) { report((info.step + 1.0) / solver.nfe()); };
    samples.push_back(sampler
                          .sample(x0.slice(0, begin, end),
                                  near(slice(conditions, begin, end), x0.device()), on_step,
                                  batching.first_sample + begin)
                          .to(torch::kCPU));
    report(1);
  });
  return torch::cat(samples);
}

// The batches of a member.
Batching batching_of(const Share& share, const Batching& all) {
  Batching own = all;
  own.first_sample += share.begin;
  return own;
}

}  // namespace

ReferenceResult reference_in_batches(const ModelPtr& model, const torch::Tensor& x0,
                                     const Conditions& conditions, const Tolerances& tolerances,
                                     const Batching& batching, int64_t trajectories) {
  Team& team = *batching.team;
  if (team.size() == 1) {
    return own_reference(model, x0, conditions, tolerances, batching, trajectories);
  }
  const Share share = share_of(x0.size(0), team);
  const auto all = exchange_work(team, [&] {
    Message mine;
    Batching own = batching_of(share, batching);
    if (own.on_given_up) {
      own.on_given_up = [&](int64_t sample, const std::string& why) {
        mine.given_up.push_back({sample, why});
      };
    }
    mine.result = own_reference(model, x0.slice(0, share.begin, share.end),
                                slice(conditions, share.begin, share.end), tolerances, own,
                                std::max(int64_t{0}, trajectories - share.begin));
    return bytes_of(mine);
  });
  std::vector<torch::Tensor> samples, evaluations;
  DenseTrajectories recorded;
  for (const std::string& bytes : all) {
    Message message = message_of(bytes, trajectory_span(*model));
    for (const GivenUp& one : message.given_up) batching.on_given_up(one.sample, one.why);
    samples.push_back(message.result.x);
    evaluations.push_back(message.result.evaluations);
    if (message.result.trajectories.count() > 0) {
      recorded.append(std::move(message.result.trajectories));
    }
  }
  return {torch::cat(samples), torch::cat(evaluations), std::move(recorded)};
}

torch::Tensor sample_in_batches(const NsSolver& solver, const Field& field, const torch::Tensor& x0,
                                const Conditions& conditions, const Batching& batching) {
  Team& team = *batching.team;
  if (team.size() == 1) return own_samples(solver, field, x0, conditions, batching);
  const Share share = share_of(x0.size(0), team);
  const auto all = exchange_work(team, [&] {
    return tensor_bytes(
        {own_samples(solver, field, x0.slice(0, share.begin, share.end),
                     slice(conditions, share.begin, share.end), batching_of(share, batching))});
  });
  std::vector<torch::Tensor> samples;
  for (const std::string& bytes : all) samples.push_back(tensors_of(bytes).front());
  return torch::cat(samples);
}

}  // namespace bespoke
