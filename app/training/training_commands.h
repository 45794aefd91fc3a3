#pragma once

#include <map>
#include <string>

#include "program/program.h"

namespace bespoke {

// The commands of `bespoke-train`: one for each kind of network that data trains, and progressive.
std::map<std::string, AddCommand> added_training_commands();

void add_transformer_command(CLI::App& app);
void add_unet_command(CLI::App& app);
void add_autoencoder_command(CLI::App& app);
void add_audio_codec_command(CLI::App& app);
void add_classifier_command(CLI::App& app);
void add_progressive_command(CLI::App& app);

}  // namespace bespoke
