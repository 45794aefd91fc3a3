#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/base/psnr.h"
#include "bespoke/base/team.h"
#include "bespoke/measure/features.h"
#include "bespoke/measure/judge.h"
#include "bespoke/model/model.h"
#include "bespoke/path/guidance_weight.h"
#include "bespoke/sample/reference.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

// The samples that solvers are compared on. Their noise is asked for a batch at a time, in order,
// and is not kept, so that memory does not grow with their number.
struct ComparedSamples {
  int64_t count = 0;
  std::function<torch::Tensor(int64_t begin, int64_t end)> noise;  // [end - begin, ...]
  Conditions conditions;                                           // of all of them
};

struct CompareOptions {
  int64_t batch = 64;
  Tolerances tolerances;  // of the reference
  // What the model is guided with, to count its calls. Over a range, the conditions hold each
  // sample's own weight, and figures are given by it too.
  GuidanceWeight guidance;

  // What a latent model's samples, the first of them number `first`, decode to; null where they are
  // images or sounds themselves.
  std::function<torch::Tensor(const torch::Tensor& x, int64_t first)> decode;
  bool errors_of_decoded = true;   // whether the errors are those of what is decoded
  double peak = kUnitPeak;         // peak-to-peak range of what the errors are of
  double latent_peak = kUnitPeak;  // of the latents, whose errors are then told beside them

  // Of samples that were filled in: 1 where they were, 0 where they were given, [count, ...] as
  // samples are and as they decode to, with sizes of 1 where all values are alike. Errors are of
  // what was filled in alone; undefined: of everything.
  torch::Tensor filled, filled_decoded;
  bool snr_of_both = false;  // of latents and of what they decode to, as sounds are measured

  // Of each sample, decoded, how its spectrum changes where a gap was filled; null: not measured.
  std::function<std::vector<double>(const torch::Tensor& shown, int64_t first)> joint_flux;

  // Of samples, decoded where they can be; null: no Fréchet distances.
  FeatureFunction features;
  // Of real data, by the same features; none: no distances to it.
  std::optional<FeatureStatistics> real_statistics;

  // Of samples drawn by prompts, decoded where they can be; null: none are judged.
  std::shared_ptr<const Jury> jury;
  // What the jury is shown of them; null: all.
  std::function<torch::Tensor(const torch::Tensor& shown, int64_t first)> judged;

  // The model's own samples begin ... end - 1, where they are known; null: computed, a batch at a
  // time.
  std::function<ReferenceResult(int64_t begin, int64_t end)> reference;

  Team* team = &alone();  // whose members have a share of the samples each; all get all figures

  int64_t keep = 0;                         // samples of each solver to return
  std::function<void(double)> on_progress;  // fraction done, 0 ... 1
};

// What one solver did. Where it diverged the figures are NaN, and the rest is absent.
struct ComparisonRow {
  std::string name;
  int nfe = 0;
  int model_calls = 0;  // a sample; a guided evaluation is two
  bool guides_itself = false;
  bool diverged = false;
  double psnr;                           // mean over the samples, decibels
  double psnr_error = 0;                 // its standard error
  std::optional<double> latent_psnr;     // where that is of what is decoded: of the latents
  double snr;                            // mean of |truth|^2 / |difference|^2, decibels
  double mse_low, mse_median, mse_high;  // 5th, 50th and 95th percentile of the squared error
  double seconds;                        // a sample, in batches as asked for
  // Where there are features: to the reference's samples, and to the real data. None also where
  // the samples are so far off that their features are not finite.
  std::optional<double> frechet_to_reference, frechet_to_real;
  std::optional<double> latent_snr, decoded_snr;  // where both are asked for
  std::optional<double> joint_flux;               // mean over the samples, decibels
  std::optional<double> agreement;       // of the judged samples, the part that shows what is said
  std::vector<double> psnr_by_guidance;  // of the samples in each bin; NaN where there is none
  std::vector<double> psnr_by_guidance_errors;
  // Standard errors of the figures of the same name.
  double snr_error = 0;
  std::optional<double> latent_psnr_error, latent_snr_error, decoded_snr_error;
  torch::Tensor samples;  // the first `keep`, decoded where they can be, float32 on the CPU
};

struct Comparison {
  std::vector<ComparisonRow> rows;           // in the order of the contenders
  std::vector<GuidanceRange> guidance_bins;  // none unless guidance is a range
  double reference_evaluations = 0;          // mean per sample; a guided one is two model calls
  // What the model itself leaves: no solver of it can be expected to come nearer to real data.
  std::optional<double> reference_frechet_to_real;
  // How far two halves of the model's own samples are apart: what chance makes of a distance to
  // samples from other noise.
  std::optional<double> frechet_noise;
  std::optional<double> reference_agreement;  // a solver can hardly do better than the model
  std::optional<double> reference_joint_flux;
  torch::Tensor reference_samples;  // as ComparisonRow's samples
};

// How near each solver's samples come to the model's own, from the same noise. A solver that
// diverges does not stop the others. Of the samples, errors and the statistics of features are
// kept, and the first `keep` themselves.
Comparison compare(const ModelPtr& model, const std::vector<NamedSolver>& contenders,
                   const ComparedSamples& samples, const CompareOptions& options);

// The same from noise x0 [count, ...] that is there already.
Comparison compare(const ModelPtr& model, const std::vector<NamedSolver>& contenders,
                   const torch::Tensor& x0, const Conditions& conditions,
                   const CompareOptions& options);

}  // namespace bespoke
