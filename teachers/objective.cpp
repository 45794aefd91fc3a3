#include "teachers/objective.h"

#include <algorithm>
#include <array>

#include "bespoke/path/prediction.h"
#include "bespoke/tensor/spectrum.h"

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

// Which of a batch lose their condition: bool [batch].
torch::Tensor draw_dropped(const torch::Tensor& labels, double probability) {
  return torch::rand({labels.size(0)}, labels.options().dtype(torch::kFloat)) < probability;
}

// [batch] as [batch, 1, ...], beside a tensor of so many dimensions.
torch::Tensor beside(const torch::Tensor& values, int64_t dimensions) {
  std::vector<int64_t> sizes(static_cast<size_t>(dimensions), 1);
  sizes[0] = -1;
  return values.view(sizes);
}

// Whole captions: all of a sample's numbers, or none.
torch::Tensor without(const torch::Tensor& labels, const torch::Tensor& dropped, int64_t null) {
  return labels.masked_fill(beside(dropped, labels.dim()), null);
}

// Points of the path, a random one for each sample.
struct PathPoints {
  torch::Tensor x, time, target;
};

PathPoints draw_points(const torch::Tensor& table, const torch::Tensor& data) {
  const torch::Tensor noise = torch::randn_like(data);
  const torch::Tensor drawn =
      torch::randint(kTimes, {data.size(0)}, data.options().dtype(torch::kLong));
  const auto row = table.index_select(0, drawn).unbind(1);
  const auto at = [&](size_t k) { return beside(row[k], data.dim()); };
  return {at(1) * (at(2) * data + at(3) * noise), row[0], at(4) * data + at(5) * noise};
}

// 1 outside a gap and 0 in it: [batch, 1, frames], a gap from a sixteenth to half of all frames.
torch::Tensor draw_known(const torch::Tensor& data) {
  constexpr double kShortest = 1. / 16, kLongest = 1. / 2;
  const auto frames = static_cast<double>(data.size(2));
  const auto uniform = [&] { return torch::rand({data.size(0), 1, 1}, data.options()); };
  const torch::Tensor length = frames * (kShortest + (kLongest - kShortest) * uniform());
  const torch::Tensor begin = uniform() * (frames - length);
  const torch::Tensor place = torch::arange(data.size(2), data.options()) + 0.5;
  return ((place < begin) | (place > begin + length)).to(data.scalar_type());
}

// How far the spectra of sounds [batch, length] are apart: their sizes relative to the original's,
// and their logarithms, in which quiet parts count as well.
torch::Tensor spectral_distance(const torch::Tensor& back, const torch::Tensor& sounds,
                                const torch::Tensor& basis) {
  constexpr double kFloor = 1e-4, kLogarithms = 0.25;
  const int64_t hop = basis.size(0) / 4;
  const torch::Tensor found = power_spectrum(back, basis, hop) + kFloor;
  const torch::Tensor wanted = power_spectrum(sounds, basis, hop) + kFloor;
  return (found.sqrt() - wanted.sqrt()).norm() / wanted.sqrt().norm() +
         kLogarithms * (found.log() - wanted.log()).abs().mean();
}

}  // namespace

Loss denoising_loss(TeacherPtr network, const ModelCard& card, const NetworkShape& shape,
                    double class_dropout, torch::Device device, torch::ScalarType dtype) {
  const torch::Tensor table = path_table(card).to(device);
  return [=](const Batch& batch) {
    const PathPoints at = draw_points(table, batch.samples);
    const torch::Tensor y =
        without(batch.labels, draw_dropped(batch.labels, class_dropout), shape.null());
    const torch::Tensor answer = network->forward(at.x.to(dtype), at.time, y).to(torch::kFloat);
    return torch::mse_loss(answer, at.target);
  };
}

Loss infilling_loss(TeacherPtr network, const ModelCard& card, const NetworkShape& shape,
                    double dropout, torch::Device device, torch::ScalarType dtype) {
  constexpr double kKnownWeight = 0.1;  // what a known frame counts
  const torch::Tensor table = path_table(card).to(device);
  return [=](const Batch& batch) {
    const PathPoints at = draw_points(table, batch.samples);
    const torch::Tensor dropped = draw_dropped(batch.labels, dropout);
    const torch::Tensor y = without(batch.labels, dropped, shape.null());
    const torch::Tensor known = draw_known(batch.samples).masked_fill(beside(dropped, 3), 0);
    const torch::Tensor input = torch::cat({at.x, batch.samples * known, known}, 1);
    const torch::Tensor answer = network->forward(input.to(dtype), at.time, y).to(torch::kFloat);
    const torch::Tensor weight = 1 - (1 - kKnownWeight) * known;
    return (weight * (answer - at.target).square().mean(1, true)).sum() / weight.sum();
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

Loss codec_loss(std::shared_ptr<Autoencoder> network, int64_t hop, torch::Device device,
                torch::ScalarType dtype) {
  constexpr double kNoise = 0.05, kSmall = 1e-3, kWaveform = 20;
  constexpr int64_t kPiece = 8000;
  std::vector<torch::Tensor> bases;
  for (const int64_t size : {128, 256, 512, 1024}) bases.push_back(fourier_basis(size).to(device));
  return [=](const Batch& batch) {
    const int64_t frames = batch.samples.size(2) / hop;
    const int64_t taken = std::min(frames, std::max<int64_t>(1, kPiece / hop));
    const int64_t first = torch::randint(frames - taken + 1, {1}, torch::kLong).item<int64_t>();
    const torch::Tensor sounds = batch.samples.narrow(2, first * hop, taken * hop);
    const torch::Tensor z = network->encoder().forward(sounds.to(dtype));
    const torch::Tensor back =
        network->decoder().forward(z + kNoise * torch::randn_like(z)).to(torch::kFloat);
    torch::Tensor loss =
        kWaveform * torch::l1_loss(back, sounds) + kSmall * z.to(torch::kFloat).square().mean();
    for (const auto& basis : bases) {
      if (basis.size(0) > sounds.size(2)) continue;
      loss = loss + spectral_distance(back.flatten(0, 1), sounds.flatten(0, 1), basis);
    }
    return loss;
  };
}

Loss class_loss(std::shared_ptr<Classifier> network, torch::ScalarType dtype) {
  return [=](const Batch& batch) {
    const torch::Tensor logits = network->forward(batch.samples.to(dtype)).to(torch::kFloat);
    return torch::nll_loss(torch::log_softmax(logits, 1), batch.labels);
  };
}

}  // namespace bespoke
