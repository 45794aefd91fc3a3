#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace bespoke {

// The small models that come with the program: in the sources' models/ where it was built, or in
// share/bespoke/models beside where it was installed.

// Their names, which --model takes as it takes a card.
std::vector<std::string> embedded_model_names();

// The card of the model with this name; empty if there is none.
std::filesystem::path embedded_card(const std::string& name);

// A file of prompts for the model with this name, of the kind that it was taught; empty where it
// takes none.
std::filesystem::path embedded_prompts(const std::string& name);

// A folder of sounds with gaps for the model with this name; empty where it fills none.
std::filesystem::path embedded_gaps(const std::string& name);

// The features that go with them, for Fréchet distances, if this is their name; otherwise empty.
constexpr char kEmbeddedFeatures[] = "cifar10-features";
std::filesystem::path embedded_features(const std::string& name);

}  // namespace bespoke
