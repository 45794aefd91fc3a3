#pragma once

#include <functional>
#include <memory>

#include "bespoke/model/card.h"
#include "teachers/autoencoder.h"
#include "teachers/classifier.h"
#include "teachers/examples.h"
#include "teachers/network.h"

namespace bespoke {

// A training loss: the mean over a batch, differentiable in the network's weights.
using Loss = std::function<torch::Tensor(const Batch&)>;

// E | f(x_t, t, y) - f* |^2 with x_t = alpha x_1 + sigma eps and f* the card's prediction of x_1
// and eps, in mean squares: of velocity the conditional flow-matching loss, of noise DDPM's. t is
// uniform on (0, 1), and the class is dropped with probability `class_dropout`, for guidance.
Loss denoising_loss(TeacherPtr network, const ModelCard& card, const NetworkShape& shape,
                    double class_dropout, torch::Device device, torch::ScalarType dtype);

// The same of a network that fills gaps in latents of sounds: x_t is put beside what is known of
// x_1 outside a gap, drawn anew for each sample, and where that is (NetworkShape::context). Caption
// and knowledge are dropped together with probability `dropout`. Frames that are known count less,
// for they are easy and nobody listens to them.
Loss infilling_loss(TeacherPtr network, const ModelCard& card, const NetworkShape& shape,
                    double dropout, torch::Device device, torch::ScalarType dtype);

// How far the samples are from what comes back, in mean absolute and mean squared difference;
// latents are kept small, and a little noise on them keeps decoding smooth.
Loss reconstruction_loss(std::shared_ptr<Autoencoder> network, torch::ScalarType dtype);

// The same of sounds, by pieces of a second: the waveform, and short-time spectra in windows of
// several lengths, as sizes and as logarithms. `hop` is the length of a frame in samples.
Loss codec_loss(std::shared_ptr<Autoencoder> network, int64_t hop, torch::Device device,
                torch::ScalarType dtype);

// Cross entropy of the class.
Loss class_loss(std::shared_ptr<Classifier> network, torch::ScalarType dtype);

}  // namespace bespoke
