#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "bespoke/report/report.h"

namespace bespoke::testing {

// A solver with times and coefficients like those of distillation: crowded towards the ends, and
// some entries negative.
inline NsSolver made_up_solver(int nfe) {
  NsSolver solver;
  for (int i = 0; i <= nfe; ++i) {
    const double even = double(i) / nfe;
    solver.times.push_back(0.03 + 0.97 * (even - 0.11 * std::sin(2 * 3.14159 * even)));
  }
  for (int i = 0; i < nfe; ++i) {
    solver.a.push_back(1 - 0.004 * i);
    std::vector<double> row;
    for (int j = 0; j <= i; ++j) {
      const double step = solver.times[size_t(j) + 1] - solver.times[size_t(j)];
      row.push_back(step * (j == i ? 1.6 : j == i - 1 ? -0.35 : 1 + 0.1 * std::cos(i + j)));
    }
    solver.b.push_back(row);
  }
  solver.start_scale = 1.02;
  return solver;
}

// Rows like those of a CIFAR-10 flow model. Euler at 4 evaluations diverged.
inline std::vector<ReportRow> made_up_rows() {
  struct Line {
    const char* name;
    double at_four, gain;  // dB, and dB per doubling
    bool distilled;
  };
  std::vector<ReportRow> rows;
  for (const Line& line : {Line{"bns", 34.7, 11.1, true}, Line{"midpoint", 22.1, 9.2, false},
                           Line{"dpm++2m", 18.9, 7.4, false},
                           Line{"unipc2-bh2/lambda-range:from=-4.30,to=4.50", 19.6, 8.1, false},
                           Line{"deis-t-ab2", 19.9, 6.9, false}, Line{"heun", 16.4, 8.7, false},
                           Line{"euler", 15.2, 5.9, false}}) {
    for (int nfe = 4; nfe <= (line.distilled ? 16 : 24); nfe += 4) {
      ReportRow row{line.name, nfe};
      row.psnr = line.at_four + line.gain * std::log2(nfe / 4.0);
      row.psnr_error = 0.31;
      row.snr = row.psnr - 6.3;
      row.mse_median = 4 * std::pow(10, -row.psnr / 10) * 0.8;
      row.seconds = 0.0031 * nfe;
      row.frechet_reference = 160 * std::pow(10, -row.psnr / 18);
      row.frechet_real = 3.4 + *row.frechet_reference;
      row.distilled = line.distilled;
      rows.push_back(row);
    }
  }
  for (auto& row : rows) {
    if (row.solver == "euler" && row.cost == 4) {
      row.psnr = row.snr = row.mse_median = std::numeric_limits<double>::quiet_NaN();
      row.frechet_reference = row.frechet_real = std::nullopt;
    }
  }
  return rows;
}

inline TrainingCurve made_up_curve(int nfe, double psnr) {
  TrainingCurve curve{"bns", nfe, {}};
  for (int start = 0; start < 2; ++start) {
    for (int i = 1; i <= 40; ++i) {
      TrainingPoint point{start, i, 0, std::nullopt};
      const double rest = std::exp(-0.15 * i) * 14 + (i > 33 ? 0.02 * (i - 33) : 0);
      point.loss = -0.23 * (psnr - 6 - rest - 3 * start) + 0.08 * std::sin(7.0 * i);
      point.calls = 800 * i;
      if (i % 2 == 0) point.validation_psnr = psnr - rest - 3 * start;
      curve.points.push_back(point);
    }
  }
  return curve;
}

inline Report made_up_report() {
  Report report;
  report.model = "cifar10-fm";
  report.of =
      "cifar10-fm, fm-ot path, velocity prediction, guidance w = 0 (guidance_scale 1), fp32, 256 "
      "samples of seed 0, sample space.";
  report.reference_cost = 170;
  report.rows = made_up_rows();
  for (const int nfe : {4, 8, 16}) {
    report.solvers.push_back({"bns", nfe, made_up_solver(nfe), "{\"name\": \"bns\"}\n"});
  }
  report.training = {made_up_curve(4, 34.7), made_up_curve(8, 45.8)};
  report.featured_solver = "bns";
  report.featured_cost = 8;
  report.catalogue = {"dpm++3m/lambda-range:from=-4.30,to=4.50",
                      {CostNeeded::Kind::interpolated, 19.4}};
  report.commands = {
      "bespoke pairs --model cifar10-fm.json --count 512 --validation 256 -o pairs",
      "bespoke distill --model cifar10-fm.json --pairs pairs --nfe 4-16+4 -o run",
      "bespoke compare --model cifar10-fm.json --nfe 4-24+4 --solvers "
      "run/bns.solver.json,midpoint,dpm++2m,unipc2-bh2,deis-t-ab2,heun,euler --report "
      "report.html"};
  report.provenance = {
      {"model", "cifar10-fm.json"},
      {"SHA-256", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
      {"pairs", "512 for training, 256 for validation"},
      {"seed", "0"},
      {"guidance", "w = 0 (guidance_scale 1)"},
      {"space", "sample"},
      {"samples", "256"},
      {"versions", "Bespoke 0.1.0, LibTorch 1.13.1"}};
  report.date = "15 November 2026";
  return report;
}

// Smooth colours in [-1, 1], [count, 3, 32, 32].
inline torch::Tensor smooth_images(int64_t count) {
  torch::manual_seed(3);
  namespace F = torch::nn::functional;
  const auto coarse = torch::randn({count, 3, 5, 5});
  const auto options = F::InterpolateFuncOptions()
                           .size(std::vector<int64_t>{32, 32})
                           .mode(torch::kBicubic)
                           .align_corners(true);
  return F::interpolate(coarse, options).mul(0.9).tanh();
}

// The reference's values, and others that miss them by what their PSNR says.
inline ReportGallery made_up_gallery(const torch::Tensor& truth, const torch::Tensor& flaw) {
  ReportGallery gallery;
  gallery.reference = {"reference", 0, false, truth};
  gallery.shown_cost = 8;
  for (const auto& row : made_up_rows()) {
    if (row.cost != 4 && row.cost != 8 && row.cost != 16) continue;
    if (std::isnan(row.psnr)) continue;
    const double size = 2 * std::pow(10, -row.psnr / 20);
    const torch::Tensor error = flaw * (size / flaw.square().mean().sqrt().item<double>());
    gallery.others.push_back({row.solver, row.cost, row.distilled, truth + error});
  }
  return gallery;
}

inline Report made_up_image_report() {
  Report report = made_up_report();
  const torch::Tensor truth = smooth_images(8);
  report.gallery = made_up_gallery(truth, truth.roll({1, 1}, {2, 3}) - truth);
  return report;
}

// A second of two tones each, 8000 Hz.
inline Report made_up_audio_report() {
  Report report = made_up_report();
  report.model = "speech-commands-fm";
  report.of = "speech-commands-fm, fm-ot path, velocity prediction, 64 samples of seed 0.";
  for (auto& row : report.rows) row.frechet_reference = row.frechet_real = std::nullopt;
  const torch::Tensor time = torch::arange(8000, torch::kDouble) / 8000;
  std::vector<torch::Tensor> sounds;
  for (const double pitch : {220.0, 330.0}) {
    const torch::Tensor tone = torch::sin(6.283185 * pitch * time) * torch::exp(-3 * time);
    sounds.push_back(0.6 * tone.unsqueeze(0));
  }
  const torch::Tensor truth = torch::stack(sounds);
  torch::manual_seed(3);
  report.gallery = made_up_gallery(truth, torch::randn(truth.sizes(), torch::kDouble));
  report.gallery.sample_rate = 8000;
  return report;
}

}  // namespace bespoke::testing
