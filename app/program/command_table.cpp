#include "program/command_table.h"

#include <algorithm>

namespace bespoke {

const std::vector<CommandRow>& solver_commands() {
  static const std::vector<CommandRow> rows = {
      {"demo", "distil, compare and report for an embedded model", true, false},
      {"check", "test whether a model's card describes its network", true, false},
      {"distill", "find the best solver of a few evaluations for a model", true, true},
      {"compare", "measure how near solvers come to the reference", true, true},
      {"sample", "draw samples with any solver", true, false},
      {"infill", "fill a gap in speech", true, false},
      {"pairs", "keep noise and the samples it becomes, to distil from", true, true},
      {"solvers", "list every solver or every grid by name", false, false},
      {"solver", "print a solver's coefficients or write them to a file", false, false},
      {"show", "show what a solver file holds", false, false},
      {"import", "turn a third-party solver into a solver file", false, false},
      {"export", "write a solver for other programs", false, false}};
  return rows;
}

const std::vector<CommandRow>& training_commands() {
  static const std::vector<CommandRow> rows = {
      {"transformer", "train a diffusion transformer on images, latents or sounds", true, false},
      {"unet", "train a U-Net on images", true, false},
      {"autoencoder", "train an autoencoder of images, whose latents models learn", true, false},
      {"audio-codec", "train an autoencoder of sounds, whose latents models learn", true, false},
      {"classifier", "train a classifier: features for Fréchet distances, and a judge", true,
       false},
      {"progressive", "train students of a model that need fewer steps", true, false}};
  return rows;
}

const CommandRow* find_command(const std::vector<CommandRow>& commands, const std::string& name) {
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const CommandRow& row) { return row.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

// The only option of the program that takes a value is --config.
size_t place_of_command(const std::vector<std::string>& arguments) {
  size_t at = 0;
  while (at < arguments.size() && arguments[at].rfind('-', 0) == 0) {
    at += arguments[at] == "--config" ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

}  // namespace bespoke
