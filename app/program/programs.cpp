#include "program/programs.h"

#include <utility>

namespace bespoke {

Program bespoke_program(std::map<std::string, AddCommand> contained, const std::string& version) {
  return {"bespoke",
          "Bespoke finds and runs fast solvers for diffusion and flow models.\n"
          "Begin with 'bespoke demo'; 'bespoke COMMAND --help' has examples.\n"
          "Small models to try solvers on are trained by bespoke-train.",
          version,
          solver_commands(),
          std::move(contained),
          {{"train",
            "training is a program of its own; write 'bespoke-train transformer' for 'bespoke "
            "train', or unet, autoencoder, audio-codec or classifier for its --network"},
           {"progressive",
            "training is a program of its own; write 'bespoke-train progressive' for 'bespoke "
            "progressive'"}}};
}

Program training_program(std::map<std::string, AddCommand> contained, const std::string& version) {
  return {"bespoke-train",
          "Trains small models on images or sounds: teachers to find solvers for, the codecs and\n"
          "classifiers they are made and measured with, and students that need fewer steps.\n"
          "'bespoke-train COMMAND --help' has examples.",
          version, training_commands(), std::move(contained)};
}

}  // namespace bespoke
