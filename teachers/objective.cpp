#include "teachers/objective.h"

#include <array>

#include "bespoke/path/prediction.h"

namespace bespoke {

namespace {

// Schedules are plain functions of one number, so they are tabulated once, at times this fine.
constexpr int64_t kTimes = 8192;

// A row of: what the network is told of the time, the scale of its input, alpha and sigma, and the
// weights of data and noise in what it should answer.
std::array<double, 6> path_row(const ModelCard& card, double t) {
  const SchedulePoint p = card.schedule->at(t);
  const auto target = output_in_terms_of_data_and_noise(card.prediction, p);
  return {network_time(card.time, *card.schedule, t).value,
          network_input_scale(card.input_scaling, *card.schedule, t).value,
          p.alpha,
          p.sigma,
          target.data,
          target.noise};
}

torch::Tensor path_table(const ModelCard& card) {
  const torch::Tensor table = torch::empty({kTimes, 6}, torch::kDouble);
  auto entries = table.accessor<double, 2>();
  for (int64_t i = 0; i < kTimes; ++i) {
    const auto row = path_row(card, (static_cast<double>(i) + 0.5) / kTimes);
    for (size_t k = 0; k < row.size(); ++k) entries[i][static_cast<int64_t>(k)] = row[k];
  }
  return table.to(torch::kFloat);
}

// Whole captions: all of a sample's numbers, or none.
torch::Tensor drop_conditions(const torch::Tensor& labels, int64_t null, double probability) {
  std::vector<int64_t> sizes(static_cast<size_t>(labels.dim()), 1);
  sizes[0] = labels.size(0);
  const torch::Tensor dropped =
      torch::rand(sizes, labels.options().dtype(torch::kFloat)) < probability;
  return labels.masked_fill(dropped, null);
}

}  // namespace

Loss denoising_loss(TeacherPtr network, const ModelCard& card, const NetworkShape& shape,
                    double class_dropout, torch::Device device, torch::ScalarType dtype) {
  const torch::Tensor table = path_table(card).to(device);
  std::vector<int64_t> column(shape.sample.size() + 1, 1);
  column[0] = -1;
  return [=](const Batch& batch) {
    const torch::Tensor& data = batch.samples;
    const torch::Tensor noise = torch::randn_like(data);
    const torch::Tensor drawn = torch::randint(kTimes, {data.size(0)}, batch.labels.options());
    const auto row = table.index_select(0, drawn).unbind(1);
    const auto at = [&](size_t k) { return row[k].view(column); };
    const torch::Tensor x = at(1) * (at(2) * data + at(3) * noise);
    const torch::Tensor y = drop_conditions(batch.labels, shape.null(), class_dropout);
    const torch::Tensor answer = network->forward(x.to(dtype), row[0], y).to(torch::kFloat);
    return torch::mse_loss(answer, at(4) * data + at(5) * noise);
  };
}

Loss reconstruction_loss(std::shared_ptr<Autoencoder> network, torch::ScalarType dtype) {
  constexpr double kNoise = 0.05, kSmall = 1e-3;
  return [=](const Batch& batch) {
    const torch::Tensor z = network->encoder().forward(batch.samples.to(dtype));
    const torch::Tensor back =
        network->decoder().forward(z + kNoise * torch::randn_like(z)).to(torch::kFloat);
    return torch::mse_loss(back, batch.samples) + torch::l1_loss(back, batch.samples) +
           kSmall * z.to(torch::kFloat).square().mean();
  };
}

Loss class_loss(std::shared_ptr<Classifier> network, torch::ScalarType dtype) {
  return [=](const Batch& batch) {
    const torch::Tensor logits = network->forward(batch.samples.to(dtype)).to(torch::kFloat);
    return torch::nll_loss(torch::log_softmax(logits, 1), batch.labels);
  };
}

}  // namespace bespoke
