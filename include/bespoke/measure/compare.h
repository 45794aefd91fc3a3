#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/base/team.h"
#include "bespoke/measure/measure.h"
#include "bespoke/model/model.h"
#include "bespoke/path/guidance_weight.h"
#include "bespoke/sample/reference.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

// The samples that solvers are compared on. Their noise is asked for a batch at a time, in order,
// and is not kept, so that memory does not grow with their number.
struct ComparedSamples {
  int64_t count = 0;  // in all, however a team divides them
  std::function<torch::Tensor(int64_t begin, int64_t end)> noise;  // [end - begin, ...]
  Conditions conditions;                                           // of all of them
};

// How samples are computed, and what is measured of them.
struct CompareOptions {
  int64_t batch = 64;       // samples computed at once
  Tolerances tolerances;    // of the reference
  GuidanceWeight guidance;  // what the model is guided with, to count its calls

  // What a latent model's samples decode to; null where they are images or sounds themselves.
  DecodeSamples decode;

  // What is measured; by default PSNR, SNR and squared errors of samples in [-1, 1].
  std::vector<MeasurePtr> measures = make_measures({});

  // The model's own samples begin ... end - 1, where they are known; null: computed, a batch at a
  // time.
  std::function<ReferenceResult(int64_t begin, int64_t end)> reference;

  Team* team = &alone();  // whose members have a share of the samples each; all get all figures

  int64_t keep = 0;                         // samples of each solver to return
  std::function<void(double)> on_progress;  // fraction done, 0 ... 1
};

// What one solver did, or the reference.
struct ComparisonRow {
  std::string name;            // the contender's, or "reference"
  int nfe = 0;                 // evaluations a sample; of the reference the mean, rounded
  int model_calls = 0;         // a sample; a guided evaluation is two
  bool guides_itself = false;  // has built-in guidance: an evaluation is one call or two
  bool diverged = false;       // then it has no figures
  double seconds = std::numeric_limits<double>::quiet_NaN();  // a sample, in batches as asked for
  Figures figures = {};                                       // by all measures
  torch::Tensor samples = {};  // the first `keep`, decoded where they can be, float32 on the CPU

  // One of the figures; none where it was not measured.
  std::optional<double> figure(const std::string& name) const;
  // The mean over the samples, in decibels; NaN where it was not measured.
  double psnr() const;
  // The standard error of that mean, likewise.
  double psnr_error() const;
};

// What was measured of all contenders.
struct Comparison {
  std::vector<ComparisonRow> rows;    // in the order of the contenders
  std::vector<FigureColumn> columns;  // the figures that rows may have, in the order of measures
  double reference_evaluations = 0;   // mean per sample; a guided one is two model calls
  ComparisonRow reference;            // "reference", with the figures that it has
};

// How near each solver's samples come to the model's own, from the same noise. A solver that
// diverges does not stop the others. Of the samples, the measures' tallies are kept, and the first
// `keep` themselves.
Comparison compare(const ModelPtr& model, const std::vector<NamedSolver>& contenders,
                   const ComparedSamples& samples, const CompareOptions& options);

// The same from noise x0 [count, ...] that is there already.
Comparison compare(const ModelPtr& model, const std::vector<NamedSolver>& contenders,
                   const torch::Tensor& x0, const Conditions& conditions,
                   const CompareOptions& options);

}  // namespace bespoke
