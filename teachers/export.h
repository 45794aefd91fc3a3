#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "bespoke/model/card.h"
#include "teachers/autoencoder.h"
#include "teachers/classifier.h"
#include "teachers/network.h"

namespace bespoke {

// Writes networks as TorchScript, weights in half precision, by recording one call on the CPU; the
// file runs on any device, in any precision and with any batch. One that fills gaps takes what is
// known of the sample as two arguments behind the caption, kVisible and kKnown.
void export_teacher(TeacherNetwork& network, const NetworkShape& shape,
                    const std::filesystem::path& path);
// Its features, or the logits of its classes.
void export_features(Classifier& network, const NetworkShape& shape,
                     const std::filesystem::path& path);
void export_classifier(Classifier& network, const NetworkShape& shape,
                       const std::filesystem::path& path);

// Its halves, a file each.
void export_autoencoder(Autoencoder& network, const NetworkShape& shape,
                        const std::filesystem::path& encoder, const std::filesystem::path& decoder);

// The card of a teacher as JSON, its weights in a file beside it; the words of captions are `y`'s
// place.
std::string teacher_card_text(const ModelCard& card, const NetworkShape& shape,
                              const std::vector<std::string>& vocabulary);

}  // namespace bespoke
