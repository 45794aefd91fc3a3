#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bespoke/base/time_span.h"
#include "bespoke/model/model.h"
#include "bespoke/model/network.h"
#include "bespoke/recipe/gapped_sounds.h"

namespace bespoke {

// Samples that fill the gaps of sounds, which are dealt to them in turn: how they become sounds
// again, and what is measured of them.
class FilledGaps {
 public:
  // Of `count` samples with these conditions, at `sample_rate` Hz.
  FilledGaps(std::shared_ptr<const GappedSounds> sounds, Conditions conditions, DecoderPtr decoder,
             int64_t sample_rate, int64_t count);

  int64_t count() const { return count_; }
  const GappedSound& sound_of(int64_t sample) const;

  // Samples from number `first` on as sounds, [batch, 1, length]: what is known put back, decoded,
  // and spliced into the recordings.
  torch::Tensor decode(const torch::Tensor& x, int64_t first) const;
  torch::Tensor recordings(int64_t first, int64_t count) const;

  // 1 where samples are filled in and 0 where they are known, [count, ...], and the same of the
  // sounds, [count, 1, length].
  torch::Tensor filled() const;
  torch::Tensor filled_sounds() const;

  // What was filled in, cut out of sounds and padded to a length: [batch, 1, length].
  torch::Tensor clips(const torch::Tensor& sounds, int64_t first, int64_t length) const;
  int64_t longest() const;  // of all gaps, in samples

  // Of each sound, how its spectrum changes where its gap begins and ends, in dB.
  std::vector<double> joint_flux(const torch::Tensor& sounds, int64_t first) const;

  // Of samples begin ... end - 1, in seconds.
  std::vector<TimeSpan> spans(int64_t begin, int64_t end) const;

 private:
  std::shared_ptr<const GappedSounds> sounds_;
  Conditions conditions_;
  DecoderPtr decoder_;
  int64_t sample_rate_, count_;
};

}  // namespace bespoke
