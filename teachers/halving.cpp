#include "teachers/halving.h"

#include <algorithm>
#include <cmath>

#include "bespoke/base/error.h"

namespace bespoke {

using namespace detail;

namespace {

// Numbers of a step beside its times, in the order of the table's columns.
std::vector<double> step_row(const HalvedStep& step) {
  return {step.from,        step.middle,          step.point.alpha,
          step.point.sigma, step.to_middle.state, step.to_middle.output,
          step.state,       step.first,           step.second,
          step.weight};
}
enum Column {
  kFromTime,
  kMiddleTime,
  kAlphaThere,
  kSigmaThere,
  kStepState,
  kStepOutput,
  kTargetState,
  kFirstAnswer,
  kSecondAnswer
};
constexpr int64_t kWeightColumn = kSecondAnswer + 1, kColumns = kWeightColumn + 1;

torch::Tensor step_table(const std::vector<HalvedStep>& steps) {
  const torch::Tensor table =
      torch::empty({static_cast<int64_t>(steps.size()), kColumns}, torch::kDouble);
  for (size_t i = 0; i < steps.size(); ++i) {
    table[static_cast<int64_t>(i)] = torch::tensor(step_row(steps[i]), torch::kDouble);
  }
  return table;
}

double weight_of_data(HalvingWeight weight, const SchedulePoint& point) {
  const double snr = point.alpha * point.alpha / (point.sigma * point.sigma);
  return weight == HalvingWeight::truncated_snr ? std::max(snr, 1.) : snr + 1;
}

HalvedStep halved_step(Prediction prediction, const Schedule& schedule, const double* times,
                       HalvingWeight weight) {
  const SchedulePoint from = schedule.at(times[0]), middle = schedule.at(times[1]),
                      to = schedule.at(times[2]);
  const Affine<double> to_middle = ddim_step(prediction, from, middle);
  const Affine<double> to_end = ddim_step(prediction, middle, to);
  const Affine<double> at_once = ddim_step(prediction, from, to);
  const double data = data_from(prediction, from).output;  // dD / df
  return {times[0],
          times[1],
          times[2],
          from,
          to_middle,
          (to_end.state * to_middle.state - at_once.state) / at_once.output,
          to_end.state * to_middle.output / at_once.output,
          to_end.output / at_once.output,
          weight_of_data(weight, from) * data * data};
}

}  // namespace

Affine<double> ddim_step(Prediction prediction, const SchedulePoint& from,
                         const SchedulePoint& to) {
  const Affine<double> data = data_from(prediction, from), noise = noise_from(prediction, from);
  const Affine<double> step = {to.alpha * data.state + to.sigma * noise.state,
                               to.alpha * data.output + to.sigma * noise.output};
  if (std::isfinite(step.state) && std::isfinite(step.output)) return step;
  throw bad_input(
      "a {} prediction says nothing of the {} where {} = 0, and so it has no DDIM step from there; "
      "begin the grid later or distil a model of another prediction",
      to_string(prediction), prediction == Prediction::data ? "noise" : "data",
      prediction == Prediction::data ? "sigma" : "alpha");
}

std::vector<HalvedStep> halved_steps(Prediction prediction, const Schedule& schedule,
                                     const std::vector<double>& times, HalvingWeight weight) {
  if (times.size() < 3 || times.size() % 2 == 0) {
    throw bad_input("only an even number of steps can be halved, found {} times", times.size());
  }
  std::vector<HalvedStep> steps;
  for (size_t i = 0; i + 2 < times.size(); i += 2) {
    steps.push_back(halved_step(prediction, schedule, &times[i], weight));
  }
  return steps;
}

Loss halving_loss(ModelPtr teacher, ModelPtr student, const std::vector<HalvedStep>& steps,
                  Conditions conditions) {
  const torch::Tensor table = step_table(steps);
  return [=](const Batch& batch) {
    const torch::Tensor& data = batch.samples;
    const torch::Tensor drawn = torch::randint(table.size(0), {data.size(0)}, torch::kLong);
    const torch::Tensor rows = table.index_select(0, drawn);
    const torch::Tensor numbers = rows.to(data.device(), torch::kFloat);
    std::vector<int64_t> sizes(static_cast<size_t>(data.dim()), 1);
    sizes[0] = -1;
    const auto at = [&](int64_t column) { return numbers.select(1, column).reshape(sizes); };
    const torch::Tensor from = rows.select(1, kFromTime).contiguous();
    const torch::Tensor middle = rows.select(1, kMiddleTime).contiguous();
    const Conditions given = select(conditions, batch.labels);
    const torch::Tensor x = at(kAlphaThere) * data + at(kSigmaThere) * torch::randn_like(data);
    torch::Tensor target;
    {
      const torch::NoGradGuard no_grad;
      const torch::Tensor first = teacher->predict(x, from, given).to(torch::kFloat);
      const torch::Tensor halfway = at(kStepState) * x + at(kStepOutput) * first;
      const torch::Tensor second = teacher->predict(halfway, middle, given).to(torch::kFloat);
      target = at(kTargetState) * x + at(kFirstAnswer) * first + at(kSecondAnswer) * second;
    }
    const torch::Tensor answer = student->predict(x, from, given).to(torch::kFloat);
    return (at(kWeightColumn) * (answer - target).square()).mean();
  };
}

std::vector<double> every_second(const std::vector<double>& times) {
  std::vector<double> chosen;
  for (size_t i = 0; i < times.size(); i += 2) chosen.push_back(times[i]);
  return chosen;
}

}  // namespace bespoke
