#include <fmt/format.h>

#include "bespoke/base/text.h"
#include "bespoke/distill/distill.h"

namespace bespoke {

using namespace detail;

std::string to_string(Ending ending) {
  switch (ending) {
    case Ending::converged:
      return "converged";
    case Ending::iterations:
      return "iterations";
    case Ending::calls:
      return "calls";
    case Ending::stopped:
      return "stopped";
    case Ending::diverged:
      return "diverged";
  }
  return "";
}

std::string DistillSummary::brief_report() const {
  std::string text = fmt::format(
      "{} evaluations{} reach {:.2f} dB on {} ({:.2f} on the training samples) "
      "after {} iterations from {}, which had {:.2f} dB. It took {} calls of the model: {} for its "
      "own "
      "samples, {} for fits and the choice of starts, {} to train and {} to measure; and {} "
      "vector-Jacobian products, in {:.1f} s, and ended: {}.",
      solver.nfe(),
      solver.guides_itself() ? fmt::format(" ({} network calls)", solver.shape().calls()) : "",
      validation_psnr, held_out > 0 ? "the validation samples" : "the samples it was learnt from",
      training_psnr, iterations, start, initial_psnr, grouped(calls()), grouped(reference_forwards),
      grouped(screening.forwards), grouped(training.forwards), grouped(validation.forwards),
      grouped(training.vjps), seconds, to_string(ending));
  if (match) {
    text += fmt::format(
        " Matching statistics took {} of these calls and {} of the iterations: their distance "
        "fell from {:.3g} to {:.3g}, and {:.2f} dB became {:.2f}.",
        grouped(match->counts.forwards), match->iteration, match->first_distance, match->distance,
        match->first_psnr, match->psnr);
  }
  if (!message.empty()) text += fmt::format(" What diverged: {}.", message);
  return text;
}

Provenance DistillSummary::provenance() const {
  Provenance result;
  result.start = start;
  result.ended = to_string(ending);
  result.initial_psnr = initial_psnr;
  result.validation_psnr = validation_psnr;
  result.training_psnr = training_psnr;
  result.iterations = iterations;
  result.forwards = training.forwards;
  if (screening.forwards > 0) result.screening_forwards = screening.forwards;
  result.more = {{"validation_forwards", validation.forwards}, {"vjps", training.vjps}};
  if (reference_forwards > 0) {
    result.calls = calls();
    result.more["reference_forwards"] = reference_forwards;
  }
  result.seconds = seconds;
  if (match) {
    result.more["match"] = {{"iterations", match->iteration},
                            {"forwards", match->counts.forwards},
                            {"statistics_distance", {match->first_distance, match->distance}},
                            {"psnr_before", match->first_psnr}};
  }
  if (!message.empty()) result.more["message"] = message;
  return result;
}

}  // namespace bespoke
