#pragma once

#include <torch/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/time_span.h"
#include "bespoke/report/equal_quality.h"
#include "bespoke/report/training_curve.h"
#include "bespoke/solver/ns_solver.h"

namespace bespoke {

// The figures of one solver at one cost. NaN where it diverged.
struct ReportRow {
  std::string solver;  // rows of one name make one line of a chart
  int cost = 0;        // a sample, in the report's unit
  double psnr = 0;     // dB against the reference, mean over samples
  double snr = 0;      // dB, likewise
  // dB, likewise, of the latents where the others are of what is decoded.
  std::optional<double> latent_psnr = std::nullopt;
  double mse_median = 0;  // of the squared error
  double seconds = 0;     // a sample
  // The Fréchet distance to the reference's samples; none where it was not measured.
  std::optional<double> frechet_reference = std::nullopt;
  std::optional<double> frechet_real = std::nullopt;  // to real data, likewise
  // Of the samples that can be judged, the part that shows what its prompt says.
  std::optional<double> agreement = std::nullopt;
  bool distilled = false;  // stands out, and the others are measured by it
  double psnr_error = 0;   // the standard error of psnr; 0 or NaN where it is not known
};

// What the best of the catalogue on its best grid, chosen anew at each cost, needs to come as near
// as the featured solver.
struct CatalogueNeed {
  std::string solver;  // the one that gets there, or comes nearest at the most that was tried
  CostNeeded needed;   // in the report's unit
};

// A distilled solver, shown with its times and coefficients.
struct ReportSolver {
  std::string solver;     // as in the rows
  int cost = 0;           // likewise
  NsSolver numbers;       // its times and coefficients
  std::string file = {};  // the solver file it is from, to be downloaded; empty: none
};

// What one solver made from the noise that all of them started from.
struct ReportSamples {
  std::string solver;      // as in the rows
  int cost = 0;            // 0 for the reference
  bool distilled = false;  // stands out
  torch::Tensor values;  // images [count, 1 or 3, height, width] or sound [count, channels, length]
};

// What is looked at or listened to.
struct ReportGallery {
  ReportSamples reference;            // without values there is no gallery
  std::vector<ReportSamples> others;  // of the reference's shape; the distilled first reads best
  int shown_cost = 0;  // of the others seen at first, the rest by a slider; 0: all at once
  std::vector<std::string> prompts;  // what each was drawn by; empty where there are none
  double least = -1;                 // the value shown black; of images
  double most = 1;                   // the value shown white; likewise
  double error_factor = 8;           // error maps show |difference| / (most - least) times this
  int sample_rate = 0;               // in Hz; of sound
  std::vector<TimeSpan> spans;       // what was filled in of each sound; empty: all was made
};

// Everything on the page. Texts are plain: they are escaped where they are put in.
struct Report {
  std::string model;  // its name, for the headline
  // One line that says what every figure is of: "FM-OT velocity, guidance w = 0, fp32, 256 samples
  // of seed 0, sample space". It stands under each of them.
  std::string of;
  double peak = 2;            // peak-to-peak range that PSNR is relative to
  double reference_cost = 0;  // mean of a sample; 0 where not known
  // What a cost counts: evaluations of the model, or, where a solver has built-in guidance and so
  // makes one or two calls of the network in each, "network call".
  std::string unit = "evaluation";
  std::vector<ReportRow> rows;  // one for each solver and cost
  // The distilled solver of the headline, as in its row; without a name, the one that saves most.
  std::string featured_solver;
  int featured_cost = 0;                   // its cost, likewise
  std::optional<CatalogueNeed> catalogue;  // none where it was not looked for
  std::vector<ReportSolver> solvers;       // the distilled ones, in the order shown
  std::vector<TrainingCurve> training;     // of those that left a log; empty: no chart of it
  ReportGallery gallery;                   // of the first samples
  std::vector<std::string> commands;       // exactly as they were run, in order
  // Model and hash, pairs, seed, guidance, space, versions and so on, in the order shown.
  std::vector<std::pair<std::string, std::string>> provenance;
  std::string date;  // as shown
};

// One HTML file that needs nothing but itself: no network, no folder beside it. Images need libpng.
std::string render_html(const Report& report);

// What the page says first, as plain text: how near the distilled solver comes, and what the others
// need for the same. Empty without a distilled solver.
std::string headline(const Report& report);

// Refuses with a usage error where the file is there and `overwrite` is not set.
void write_report(const std::filesystem::path& path, const std::string& html, bool overwrite);

}  // namespace bespoke
