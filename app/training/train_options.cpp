#include "training/train_options.h"

#include "bespoke/base/error.h"
#include "options/decode_options.h"
#include "options/number_checks.h"
#include "options/option_groups.h"

namespace bespoke {

namespace {

void add_transformer_options(CLI::App& command, TransformerOptions& transformer) {
  command.add_option("--patch", transformer.patch, "side of a patch")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--width", transformer.width, "width of a token")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--depth", transformer.depth, "number of blocks")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--heads", transformer.heads, "attention heads")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--mlp-ratio", transformer.mlp_ratio, "hidden width / width")
      ->check(positive_number())
      ->capture_default_str();
}

void add_unet_options(CLI::App& command, UNetOptions& unet) {
  command.add_option("--channels", unet.channels, "channels at full resolution")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--multipliers", unet.multipliers, "of the channels, one per level")
      ->delimiter(',')
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--blocks", unet.blocks, "residual blocks per level")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--attention", unet.attention, "widths that have self-attention")
      ->delimiter(',')
      ->capture_default_str();
}

void add_autoencoder_options(CLI::App& command, AutoencoderOptions& autoencoder) {
  command.add_option("--latent-channels", autoencoder.latents, "channels of a latent")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--levels", autoencoder.levels, "each halves height and width")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--channels", autoencoder.channels, "channels at full resolution")
      ->check(positive_number())
      ->capture_default_str();
}

void add_codec_options(CLI::App& command, CodecOptions& codec) {
  command.add_option("--latent-channels", codec.latents, "channels of a latent")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--channels", codec.channels, "channels at full rate")
      ->check(positive_number())
      ->capture_default_str();
  command
      .add_option("--strides", codec.strides,
                  "how much each level shortens a sound; 4,4,5 makes a frame of 80 samples")
      ->delimiter(',')
      ->check(positive_number())
      ->capture_default_str();
}

// Of models that samples are drawn from: what they learn, and what their card says.
void add_teacher_options(CLI::App& command, TrainCommandOptions& options) {
  command.add_option("--latents", options.latents,
                     "folder of an autoencoder or audio-codec: train on what it makes of the data");
  command.add_option("--schedule", options.schedule, "the path, as in 'bespoke solver --schedule'")
      ->capture_default_str();
  command
      .add_option("--prediction", options.prediction,
                  "what the network learns: velocity (the CFM loss), noise, data, v or edm")
      ->capture_default_str();
  command
      .add_option("--class-dropout", options.class_dropout,
                  "how often the class or caption is withheld, for guidance")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option("--grid-every", options.grid_every,
                  "steps between sample grids (default: at the end)")
      ->check(positive_number());
  command.add_option("--name", options.name, "of the model, for its card");
  command.add_option("--licence", options.licence, "of the model, for its card");
  command.add_option("--source", options.source, "of the data, for its card");
}

void add_caption_options(CLI::App& command, TrainCommandOptions& options) {
  command.add_option(
      "--captions", options.captions,
      "a file with one caption per line, one for each image in its order, instead of "
      "classes");
  command.add_flag("--infill", options.infill,
                   "fill gaps in sounds, with --latents and --captions: the model is given what is "
                   "said and what is heard around the gap");
}

void add_training_options(CLI::App& command, TrainOptions& train) {
  command.add_option("--steps", train.steps, "of the optimiser")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--batch", train.batch, "examples per step")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--learning-rate", train.adamw.learning_rate, "the highest, of AdamW")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--warmup", train.warmup, "steps until it is reached")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--weight-decay", train.adamw.weight_decay, "of AdamW")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--ema", train.adamw.ema, "decay of the weights' average, which is exported")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_flag("--flip", train.augment.flip, "mirror images at random");
  command.add_option("--shift", train.augment.shift, "move images by up to so many pixels")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--seed", train.seed, "of everything random")->capture_default_str();
}

}  // namespace

void TrainCommandOptions::add_to(CLI::App& command) {
  command.add_option("--data", data, "folder, zip or .safetensors of images or sounds; repeatable")
      ->required();
  add_decode_option(command);
  command.add_option("--size", size, "width of images or length of sounds (default: as they are)")
      ->check(positive_number());
  command.add_option("-o,--output", output, "folder for the model, its card, checkpoint and log")
      ->required();
  if (is_transformer()) add_transformer_options(command, transformer);
  if (network == "unet") add_unet_options(command, unet);
  if (is_autoencoder()) add_autoencoder_options(command, autoencoder);
  if (is_codec()) add_codec_options(command, codec);
  if (is_teacher()) add_teacher_options(command, *this);
  if (is_transformer()) add_caption_options(command, *this);
  if (!is_teacher()) command.add_option("--test", test, "data that it is tested on at the end");
  add_training_options(command, train);
  command.add_option("--device", device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", dtype, "fp32 or bf16 (default: bf16 on CUDA)")
      ->check(CLI::IsMember({"auto", "fp32", "bf16"}))
      ->capture_default_str();
  command.add_option("--threads", threads, "CPU threads (default: all cores)")
      ->check(positive_number());
  command.add_flag("--resume", resume, "continue the training in the output folder");
  group_options(
      command,
      {{"From what",
        {"--data", "--size", "--latents", "--captions", "--infill", "--test", "--decode-limit"}},
       {"The network",
        {"--patch", "--width", "--depth", "--heads", "--mlp-ratio", "--channels", "--multipliers",
         "--blocks", "--attention", "--levels", "--latent-channels", "--strides"}},
       {"What to learn, and how long",
        {"--schedule", "--prediction", "--class-dropout", "--steps", "--batch", "--learning-rate",
         "--warmup", "--weight-decay", "--ema", "--flip", "--shift", "--seed", "--resume"}},
       {"What to write", {"--output", "--grid-every", "--name", "--licence", "--source"}},
       {"Where to run", {"--device", "--dtype", "--threads"}}});
}

void TrainCommandOptions::check() const {
  if (train.warmup >= train.steps) {
    throw usage_error("--warmup {} leaves nothing of --steps {}; give fewer", train.warmup,
                      train.steps);
  }
  if (infill && (latents.empty() || captions.empty())) {
    throw usage_error(
        "--infill needs --latents, the folder of an audio-codec, and --captions, what is said");
  }
  if (!latents.empty() && (train.augment.flip || train.augment.shift > 0)) {
    throw usage_error("--flip and --shift are for images, not for their latents; leave them out");
  }
  if (is_teacher()) card_to_train(*this, 0);  // the schedule and prediction have names we know
}

nlohmann::json TrainCommandOptions::resolved() const {
  nlohmann::json json = {{"data", data},
                         {"size", size},
                         {"latents", latents},
                         {"captions", captions},
                         {"network", network},
                         {"steps", train.steps},
                         {"batch", train.batch},
                         {"learning_rate", train.adamw.learning_rate},
                         {"warmup", train.warmup},
                         {"weight_decay", train.adamw.weight_decay},
                         {"ema", train.adamw.ema},
                         {"flip", train.augment.flip},
                         {"shift", train.augment.shift},
                         {"seed", train.seed}};
  if (is_transformer()) {
    json["transformer"] = {{"patch", transformer.patch},
                           {"width", transformer.width},
                           {"depth", transformer.depth},
                           {"heads", transformer.heads},
                           {"mlp_ratio", transformer.mlp_ratio}};
  }
  if (network == "unet") {
    json["unet"] = {{"channels", unet.channels},
                    {"multipliers", unet.multipliers},
                    {"blocks", unet.blocks},
                    {"attention", unet.attention}};
  }
  if (is_autoencoder()) {
    json["autoencoder"] = {{"channels", autoencoder.channels},
                           {"latents", autoencoder.latents},
                           {"levels", autoencoder.levels}};
  }
  if (is_codec()) {
    json["codec"] = {
        {"channels", codec.channels}, {"latents", codec.latents}, {"strides", codec.strides}};
  }
  if (infill) json["infill"] = true;
  if (is_teacher()) {
    json["schedule"] = schedule;
    json["prediction"] = prediction;
    json["class_dropout"] = class_dropout;
  }
  return json;
}

ModelCard card_to_train(const TrainCommandOptions& options, int sample_rate) {
  ModelCard card;
  card.format = "torchscript";
  card.name = options.name;
  card.weights = std::filesystem::path(options.output) / "model.pt";
  card.prediction = parse_prediction(options.prediction);
  card.schedule = make_schedule(options.schedule);
  // Noise of deviation 80 is nothing a network should be given as it is.
  const bool wide = card.schedule->source_std() > 2;
  card.input_scaling = wide ? InputScaling::edm : InputScaling::none;
  card.sample_rate = sample_rate;
  card.licence = options.licence;
  card.source = options.source;
  return card;
}

TeacherPtr make_teacher(const TrainCommandOptions& options, const NetworkShape& shape) {
  if (options.network == "unet") return make_unet(shape, options.unet);
  return make_transformer(shape, options.transformer);
}

}  // namespace bespoke
