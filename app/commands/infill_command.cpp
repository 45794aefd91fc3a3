#include <fmt/format.h>
#include <torch/torch.h>

#include <memory>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/io/png.h"
#include "bespoke/io/wav.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/model/fields.h"
#include "bespoke/recipe/infill.h"
#include "bespoke/report/spectrogram.h"
#include "bespoke/sample/in_batches.h"
#include "bespoke/sample/on_outputs.h"
#include "commands/commands.h"
#include "options/decode_options.h"
#include "options/drawing_options.h"
#include "options/model_options.h"

namespace bespoke {

using namespace detail;

namespace {

struct InfillCommandOptions {
  ModelOptions model;
  DrawingOptions drawing;
  std::string audio, span, text;
  int64_t seed = 0;
  std::string picture, output;
};

SoundToFill read_sound(const InfillCommandOptions& options, const TimeSpan& span,
                       const OpenModel& open) {
  const WavFile file = read_wav(options.audio);
  const int64_t channels = file.audio.size(0), rate = open.card.sample_rate;
  const SoundToFill sound = prepare_sound(file, span, open.card);
  if (channels > 1) say("bespoke: {} has {} channels: mixed down to one", options.audio, channels);
  if (file.sample_rate != rate) {
    say("bespoke: {} has {} Hz, the model {}: the span is resampled, the rest kept as it is",
        options.audio, file.sample_rate, rate);
  }
  return sound;
}

Conditions conditions_of(const InfillCommandOptions& options, const SoundToFill& sound,
                         const OpenModel& open) {
  Conditions conditions = gap_conditions({sound.window}, *open.encoder, open.card);
  for (const auto& condition : open.card.conditions) {
    if (condition.is_text()) conditions[condition.name] = text_row(condition, options.text);
  }
  return conditions;
}

torch::Tensor draw_latent(const InfillCommandOptions& options, const OpenModel& open,
                          const Conditions& conditions) {
  const ModelPtr model = guided(open, conditions);
  const torch::Tensor noise = starting_noise(*open.model, static_cast<uint64_t>(options.seed), 0, 1)
                                  .to(open.device, open.state_dtype());
  if (options.drawing.exactly()) {
    return reference_in_batches(model, noise, conditions,
                                {options.drawing.tolerance, options.drawing.tolerance}, {})
        .x;
  }
  const SolverOnField run = on_outputs(options.drawing.chosen(open.field()), model);
  return sample_in_batches(run.solver, *run.field, noise, conditions, {});
}

void check_infill(const InfillCommandOptions& options, const OpenModel& open) {
  if (options.seed < 0) throw usage_error("--seed must not be negative, found {}", options.seed);
  if (!open.encoder) {
    throw usage_error(
        "{} fills no gaps: its card has no encoder; train one with "
        "'bespoke-train transformer --infill'",
        open.name);
  }
  if (open.guidance.range) throw usage_error("--guidance must be one weight here, not a range");
}

void run_infill(const InfillCommandOptions& options) {
  const TimeSpan span = parse_time_span(options.span, "--span");
  const OpenModel open = open_model(options.model);
  check_infill(options, open);
  const SoundToFill sound = read_sound(options, span, open);
  const Conditions conditions = conditions_of(options, sound, open);
  const torch::NoGradGuard no_grad;
  const torch::Tensor latent = with_known(draw_latent(options, open, conditions), conditions);
  const torch::Tensor decoded =
      open.decoder->decode(latent).to(torch::kCPU, torch::kFloat).reshape({-1});
  const torch::Tensor filled = filled_sound(sound, decoded, open.card);
  write_wav(options.output, filled, sound.sample_rate);
  if (!options.picture.empty()) {
    write_png(options.picture, spectrogram_image(filled, sound.sample_rate, span));
  }
  fmt::print("{}\n{}: filled {:g}-{:g} s of {} with \"{}\"\nwrote {}\n", open.title(),
             options.drawing.name, span.from, span.to, options.audio, options.text, options.output);
}

}  // namespace

void add_infill_command(CLI::App& app) {
  auto options = std::make_shared<InfillCommandOptions>();
  auto* command = app.add_subcommand(
      "infill",
      "Fill a gap in speech: what is heard stays as it was, the span is spoken anew.\n\n"
      "Examples:\n"
      "  bespoke infill --model speech --audio in.wav --span 0.8-1.4 "
      "--text \"three five two\" -o out.wav\n"
      "  bespoke infill --model speech --audio in.wav --span 0.8-1.4 "
      "--text \"three five two\" --solver run/bns.solver.json --guidance 1 -o out.wav\n"
      "  bespoke infill --model infill/model.json --audio in.wav --span 0.8-1.4 "
      "--text \"three five two\" --solver reference --spectrogram out.png -o out.wav");
  command->add_option("--audio", options->audio, "a WAV file, of any rate and length")->required();
  command->add_option("--span", options->span, "FROM-TO in seconds: what is filled in")->required();
  command
      ->add_option("--text", options->text,
                   "what is said in the model's window around the span, the span included, in "
                   "words that the model knows")
      ->required();
  options->drawing.add_to(*command);
  command->add_option("--seed", options->seed, "of the noise that the span is made from")
      ->capture_default_str();
  options->model.add_to(*command);
  add_decode_option(*command);
  command->add_option("--spectrogram", options->picture,
                      "also a picture of the result, the span marked: a PNG file");
  command->add_option("-o,--output", options->output, "the WAV file to write")->required();
  command->callback([options] { run_infill(*options); });
}

}  // namespace bespoke
