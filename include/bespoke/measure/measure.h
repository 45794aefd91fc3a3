#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bespoke/base/psnr.h"
#include "bespoke/measure/features.h"
#include "bespoke/measure/filled_gaps.h"
#include "bespoke/measure/judge.h"
#include "bespoke/path/guidance_weight.h"

namespace bespoke {

// What the samples numbered from `first` on, [batch, ...], decode to.
using DecodeSamples = std::function<torch::Tensor(const torch::Tensor& x, int64_t first)>;

// A batch of samples as measures see it, by one solver or by the reference.
class MeasuredSamples {
 public:
  // Samples number first, first + 1 and so on of `total`; `decode` may be null.
  MeasuredSamples(torch::Tensor drawn, int64_t first, int64_t total, DecodeSamples decode);

  int64_t first() const { return first_; }  // the number of the first of them
  int64_t total() const { return total_; }  // of all batches together
  // As the model draws them.
  const torch::Tensor& drawn() const { return drawn_; }
  // As they are looked at or listened to: decoded, where they can be. Decoding may cost as much as
  // sampling, so it is done when this is first asked for.
  const torch::Tensor& shown() const;

 private:
  torch::Tensor drawn_;
  int64_t first_, total_;
  DecodeSamples decode_;
  mutable torch::Tensor shown_;
};

// What a measure keeps of the samples it has seen. Tallies of batches are joined in the order of
// the samples, also where the members of a team have measured a part of them each.
struct Tally {
  std::vector<std::vector<double>> numbers = {};  // lists with one number for each sample
  std::vector<FeatureAccumulator> features = {};  // statistics over all samples
  bool failed = false;                            // on samples so far off that they show nothing

  // Adds what was kept of the samples that follow.
  void append(const Tally& next);
};

// Figures by their names, "psnr_db". One that could not be measured is missing.
using Figures = std::map<std::string, double>;

// How a figure is written for people: in decibels with two digits and, where there is one, its
// standard error; a fraction in per cent; the others to three or four digits that count.
enum class FigureKind { decibels, squared_error, distance, fraction };

// One of a measure's figures, as tables show it.
struct FigureColumn {
  std::string name;                        // of the figure, and of its column in CSV and JSON
  FigureKind kind = FigureKind::decibels;  // how it is written
  // What a table of this figure by cost is headed with, before ", by NFE". People see no table of a
  // figure without a title.
  std::string title = {};
  std::string remark = {};  // what stands behind that
  std::string error = {};   // the figure that stands behind it as its standard error
  // Where several figures share a table with this title, what this one's column there is headed
  // with.
  std::string heading = {};
};

// Something that is measured of every solver's samples: see docs/develop/adding.md, "Adding a
// measure".
class Measure {
 public:
  virtual ~Measure() = default;

  // What is kept of a batch of a solver's samples; `exact` are the reference's from the same noise.
  virtual Tally tally(const MeasuredSamples& samples, const MeasuredSamples& exact) const = 0;
  // What is kept of a batch of the reference's own samples.
  virtual Tally reference_tally(const MeasuredSamples& exact) const;

  // The figures of a solver that did not diverge, from its tally, beside the reference's.
  using FiguresOf = std::function<Figures(const Tally& solver)>;
  // Makes these figures beside a reference's tally.
  virtual FiguresOf against(const Tally& reference) const = 0;
  // Those of the reference itself.
  virtual Figures reference_figures(const Tally& reference) const;

  // All figures it can give, in the order of columns. Titles may say what the reference has.
  virtual std::vector<FigureColumn> columns(const Figures& reference) const = 0;
};
// Shared: all rows of a comparison are measured by the same ones.
using MeasurePtr = std::shared_ptr<const Measure>;

// What measures are made of. Each takes what it needs, and is left out where that is missing.
struct MeasureInputs {
  int64_t count = 0;  // of all samples

  bool decoded = false;            // whether errors are of what samples decode to
  double peak = kUnitPeak;         // peak-to-peak range of what errors are of
  double latent_peak = kUnitPeak;  // of the latents, whose errors are then given as well
  // Where only a part of a sample counts: 1 where it does and 0 elsewhere, [count, ...] as samples
  // are, with sizes of 1 where all values are alike; undefined: all of it counts.
  torch::Tensor mask = {};
  torch::Tensor decoded_mask = {};  // the same of what samples decode to
  std::string counted = {};         // ", in the filled spans": which part that is

  // Where guidance is a range: the parts of it that have a figure each.
  std::vector<GuidanceRange> guidance_bins = {};
  torch::Tensor guidance_weights = {};  // each sample's own weight, [count]

  // Fréchet distances.
  FeatureFunction features = nullptr;                    // of samples as they are shown
  std::string features_name = {};                        // "512 features of inception.pt"
  std::optional<FeatureStatistics> real = std::nullopt;  // of real data, by the same features
  std::string real_name = {};                            // "photos.zip"

  // Of samples drawn by prompts: whether they show what these say.
  std::shared_ptr<const Jury> jury = nullptr;

  bool decodes_sounds = false;  // whether samples decode to sounds, whose SNR is a figure
  std::shared_ptr<const FilledGaps> gaps = nullptr;  // in sounds that the samples fill
};

// Every measure of the registry that the inputs suffice for, the errors of samples always.
std::vector<MeasurePtr> make_measures(const MeasureInputs& inputs);

}  // namespace bespoke
