#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bespoke/measure/compare.h"
#include "options/samples_options.h"

namespace bespoke {

// The samples of a comparison that fill the gaps of --utterances, in turn: how they become sounds,
// and what is measured of them. Refers to the model.
class FilledGaps {
 public:
  FilledGaps(const OpenModel& open, const ChosenSamples& chosen);

  const GappedSound& sound_of(int64_t sample) const;

  // Samples from number `first` on as sounds, [batch, 1, length]: what is known put back, decoded,
  // and spliced into the recordings.
  torch::Tensor decode(const torch::Tensor& x, int64_t first) const;
  torch::Tensor recordings(int64_t first, int64_t count) const;

  // What was filled in, cut out of sounds and padded to a length: [batch, 1, length].
  torch::Tensor clips(const torch::Tensor& sounds, int64_t first, int64_t length) const;
  int64_t longest() const;  // of all gaps, in samples

  std::vector<double> joint_flux(const torch::Tensor& sounds, int64_t first) const;
  // Mean over all samples, of the recordings.
  double recorded_flux() const;

  // Decoding, what errors are of, and the flux at the joints; the jury is shown the clips.
  void apply_to(CompareOptions& options) const;

  // Of samples begin ... end - 1, in seconds.
  std::vector<TimeSpan> spans(int64_t begin, int64_t end) const;

 private:
  int64_t clip_length(const CompareOptions& options) const;

  const OpenModel& open_;
  Conditions conditions_;
  int64_t count_;
};

// How many of the gaps are judged right in the recordings themselves.
std::optional<double> recorded_agreement(const FilledGaps& gaps, const CompareOptions& options,
                                         int64_t count);

}  // namespace bespoke
