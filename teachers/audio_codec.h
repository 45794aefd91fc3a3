#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "teachers/autoencoder.h"

namespace bespoke {

struct CodecOptions {
  int64_t channels = 24;                     // at full rate; twice as many after each stride
  int64_t latents = 16;                      // channels of a frame
  std::vector<int64_t> strides = {4, 4, 5};  // how much each level shortens a sound

  int64_t hop() const;  // samples of a frame
  // How many frames on either side of a sound's change the encoder notices it in.
  int64_t margin() const;
};

// Convolutions from a waveform down to frames and up again. Nothing is normalised over time, so a
// frame depends on the sound near it alone, and a gap in a sound leaves frames far from it as they
// were.
std::shared_ptr<Autoencoder> make_audio_codec(const NetworkShape& shape,
                                              const CodecOptions& options);

}  // namespace bespoke
