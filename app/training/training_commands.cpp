#include "training/training_commands.h"

namespace bespoke {

std::map<std::string, AddCommand> added_training_commands() {
  return {{"transformer", add_transformer_command}, {"unet", add_unet_command},
          {"autoencoder", add_autoencoder_command}, {"audio-codec", add_audio_codec_command},
          {"classifier", add_classifier_command},   {"progressive", add_progressive_command}};
}

}  // namespace bespoke
