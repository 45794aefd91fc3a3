#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/folder_lock.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/text.h"
#include "bespoke/io/dataset.h"
#include "bespoke/io/image.h"
#include "bespoke/io/png.h"
#include "bespoke/io/wav.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/jobs/run_folder.h"
#include "bespoke/measure/judge.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/network.h"
#include "bespoke/recipe/infill.h"
#include "bespoke/report/spectrogram.h"
#include "bespoke/sample/reference.h"
#include "bespoke/tensor/errors.h"
#include "options/model_options.h"
#include "options/retired_options.h"
#include "teachers/export.h"
#include "teachers/latent_space.h"
#include "training/train_options.h"
#include "training/train_run.h"
#include "training/training_commands.h"

namespace bespoke {

using namespace detail;

namespace {

// Says what was done to the data.
Dataset read_with_progress(const std::vector<std::filesystem::path>& sources,
                           DatasetOptions options) {
  Dataset data;
  {
    Progress progress("reading");
    options.on_progress = [&](double done) { progress.update(done); };
    data = read_dataset(sources, options);
  }
  for (const auto& note : data.notes) say("{}", note);
  return data;
}

Dataset read_training_data(const TrainCommandOptions& options) {
  DatasetOptions wanted;
  wanted.size = options.size;
  Dataset data = read_with_progress({options.data.begin(), options.data.end()}, wanted);
  const auto& augment = options.train.augment;
  if (data.sample_rate > 0 && (augment.flip || augment.shift > 0)) {
    throw usage_error("--flip and --shift are for images; {} holds sounds", options.data.front());
  }
  fmt::print("{} {} of {} in {} class{}\n", data.labels.size(0),
             data.sample_rate > 0 ? "sounds" : "images",
             fmt::join(data.samples.sizes().slice(1), "x"), data.classes.size(),
             data.classes.size() == 1 ? "" : "es");
  return data;
}

TrainOptions resolve_device(const TrainCommandOptions& options) {
  TrainOptions train = options.train;
  train.report_at = options.grid_every;
  train.device = parse_device(options.device);
  set_threads(options.threads);
  const bool half = options.dtype == "bf16" || (options.dtype == "auto" && train.device.is_cuda());
  train.dtype = half ? torch::kBFloat16 : torch::kFloat;
  return train;
}

// Of the first classes or captions, a column each; where gaps are filled, of the first sounds with
// a third left out in the middle.
Conditions shown_conditions(const Examples& examples) {
  constexpr int64_t kColumns = 10;
  const NetworkShape shape = examples.shape();
  if (!shape.has_captions()) {
    return {{"y", torch::arange(std::min(shape.classes, kColumns), torch::kLong)}};
  }
  const Batch first = examples.slice(0, std::min(kColumns, examples.count()));
  Conditions conditions = {{"prompt", first.labels.cpu()}};
  if (!shape.fills_gaps()) return conditions;
  const int64_t frames = shape.sample[1];
  const torch::Tensor known = torch::ones({first.samples.size(0), 1, frames});
  known.slice(2, frames / 3, 2 * frames / 3).zero_();
  conditions[kKnown] = known;
  conditions[kVisible] = first.samples.cpu() * known;
  return conditions;
}

Conditions null_conditions(const ModelCard& card) {
  Conditions null;
  for (const auto& condition : card.conditions) null[condition.name] = null_value(condition);
  return null;
}

void write_shown_sounds(const ModelCard& card, const torch::Tensor& sounds,
                        const std::filesystem::path& base) {
  const auto rate = static_cast<int>(card.sample_rate);
  std::vector<torch::Tensor> pictures;
  for (int64_t i = 0; i < sounds.size(0); ++i) {
    write_wav(fmt::format("{}-class{}.wav", base.string(), i), sounds[i], rate);
    pictures.push_back(spectrogram_image(sounds[i].reshape({-1}), rate));
  }
  write_png(base.string() + ".png", torch::cat(pictures, 1));
}

// What the model makes of the same noise each time, a column for each condition. Solved roughly,
// which the eye does not see.
void write_sample_grid(const std::filesystem::path& card_file, const Conditions& conditions,
                       torch::Device device, const std::filesystem::path& base) {
  constexpr double kGuidance = 1, kTolerance = 1e-2;
  torch::NoGradGuard no_grad;
  const ModelCard card = read_model_card(card_file);
  const int64_t columns = conditions.begin()->second.size(0);
  const int64_t rows = card.sample_rate > 0 ? 1 : 8;
  const ModelPtr model =
      guided_model(load_model(card, {device, torch::kFloat}), kGuidance, null_conditions(card));
  const Conditions repeated = repeat(conditions, rows);
  ReferenceOptions options;
  options.tolerances = {kTolerance, kTolerance};
  torch::Tensor x =
      reference(model, starting_noise(*model, 0, 0, rows * columns).to(device, torch::kFloat),
                repeated, options)
          .x.to(torch::kCPU, torch::kFloat);
  if (card.encoder) x = with_known(x, repeated);
  if (card.decoder) x = Decoder(*card.decoder, {}).decode(x);
  if (card.sample_rate > 0) {
    write_shown_sounds(card, x, base);
  } else {
    write_png(base.string() + ".png", image_grid(to_bytes(x, -1, 1), {columns, 2, zoom_to_see(x)}));
  }
}

// Hours of training do not end for want of a picture.
template <class Work>
void try_to_show(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    say("no samples are shown: {}", split(error.what(), '\n').front());
  }
}

// One training: what is made of the weights along the way and at the end is the caller's.
struct Training {
  std::shared_ptr<torch::nn::Module> network;
  Loss loss;
  std::function<void(const AdamWState&, int64_t step)> show;  // a look at the average, now and then
};

// All that decides the result, the precision among it.
nlohmann::json resolved_run(const TrainCommandOptions& options, const TrainOptions& train) {
  nlohmann::json json = options.resolved();
  json["dtype"] = train.dtype == torch::kFloat ? "fp32" : "bf16";
  return json;
}

// Only when the training is about to begin: what fails before leaves no folder behind.
FolderLock claim(const TrainCommandOptions& options, const TrainOptions& train_options) {
  return claim_folder(options.output, resolved_run(options, train_options), options.resume);
}

AdamWState train_with_progress(const TrainCommandOptions& options,
                               const TrainOptions& train_options, const Examples& examples,
                               const Training& training) {
  AdamWState state =
      state_to_begin_with(options.output, options.resume, train_options.device, *training.network);
  TrainingRun run(options.output, state.step);
  const int64_t begin = state.step;
  double last = 0;
  {
    Progress progress("training");
    train(*training.network, training.loss, examples, train_options, state,
          [&](const TrainProgress& at) {
            last = at.loss;
            const double rate = static_cast<double>((at.step - begin) * train_options.batch) /
                                std::max(run.seconds(), 1e-9);
            progress.show(
                static_cast<double>(at.step) / static_cast<double>(train_options.steps),
                fmt::format("step {}, loss {:.4f}, {:.0f} examples/s", at.step, at.loss, rate));
            run.record(at, state);
            const int64_t every = options.grid_every;
            if (every > 0 && at.step % every == 0 && at.step < train_options.steps) {
              // Shown first: a run killed in between would otherwise go on past it.
              try_to_show([&] { training.show(state, at.step); });
              run.store(state);
            }
            return !interrupt_requested();
          });
  }
  run.store(state);
  if (interrupt_requested()) {
    throw Error(ErrorKind::interrupted,
                fmt::format("interrupted at step {} of {}; continue with --resume", state.step,
                            train_options.steps));
  }
  if (state.step > begin) {
    fmt::print("{} steps of {} examples in {:.0f} s, loss {:.4f}\n", state.step - begin,
               train_options.batch, run.seconds(), last);
  }
  return state;
}

int64_t weight_count(const torch::nn::Module& network) {
  int64_t count = 0;
  for (const auto& parameter : network.parameters()) count += parameter.numel();
  return count;
}

std::optional<Captions> captions_of(const TrainCommandOptions& options, const Dataset& data) {
  if (options.captions.empty()) return std::nullopt;
  Captions captions = read_captions(options.captions, data.samples.size(0));
  fmt::print("captions of up to {} words, {} different ones\n", captions.tokens.size(1),
             captions.words.size());
  return captions;
}

// The data as the autoencoder encodes it, if there is one; the card gets its halves.
Dataset encoded(const TrainCommandOptions& options, const TrainOptions& train_options,
                const Dataset& data, ModelCard& card) {
  if (options.latents.empty()) return data;
  constexpr double kRange = 4;  // standard deviations
  const LatentSpace space = read_latent_space(options.latents);
  if (options.infill && space.sample_rate == 0) {
    throw bad_input("{} is of images; --infill needs the folder of an audio-codec",
                    options.latents);
  }
  if (data.sample_rate != space.sample_rate) {
    throw bad_input("{} has sounds of {} Hz, the audio-codec {} is for {}", options.data.front(),
                    data.sample_rate, options.latents, space.sample_rate);
  }
  Dataset latents = data;
  latents.samples =
      encode_samples(space, Examples(data, train_options.device), train_options.device);
  card.decoder = space.decoder;
  if (options.infill) card.encoder = space.encoder;
  card.least = -kRange;
  card.most = kRange;
  fmt::print("latents of {}\n", fmt::join(space.shape, "x"));
  return latents;
}

// Beside the model, so that its card finds them.
void copy_halves(ModelCard& card, const std::filesystem::path& folder) {
  const auto copy = [&](std::filesystem::path& weights, const char* name) {
    write_file_atomically(folder / name, read_file(weights));
    weights = folder / name;
  };
  if (card.decoder) copy(card.decoder->weights, "decoder.pt");
  if (card.encoder) copy(card.encoder->weights, "encoder.pt");
}

Loss teacher_loss(const TrainCommandOptions& options, const TrainOptions& train_options,
                  const TeacherPtr& network, const ModelCard& card, const NetworkShape& shape) {
  const auto loss = shape.fills_gaps() ? infilling_loss : denoising_loss;
  return loss(network, card, shape, options.class_dropout, train_options.device,
              train_options.dtype);
}

void train_teacher(const TrainCommandOptions& options, const TrainOptions& train_options,
                   const Dataset& data) {
  const std::optional<Captions> captions = captions_of(options, data);
  ModelCard card = card_to_train(options, data.sample_rate);
  Examples examples(encoded(options, train_options, data, card), train_options.device, captions);
  if (options.infill) examples.leave_gaps();
  const NetworkShape shape = examples.shape();
  const TeacherPtr network = make_teacher(options, shape);
  const TeacherPtr averaged = make_teacher(options, shape);  // on the CPU, where it is recorded
  fmt::print("{} of {:.2f} million weights, {} on the {} path\n", options.network,
             1e-6 * static_cast<double>(weight_count(*network)), to_string(card.prediction),
             card.schedule->name());
  const std::filesystem::path folder = options.output;
  const auto card_file = folder / "model.json";
  const auto write_model = [&](const AdamWState& state) {
    set_weights(*averaged, state.average.to(torch::kCPU));
    export_teacher(*averaged, shape, card.weights);
    write_file_atomically(
        card_file,
        teacher_card_text(card, shape, captions ? captions->words : std::vector<std::string>()));
  };
  const auto show_samples = [&](int64_t step) {
    write_sample_grid(card_file, shown_conditions(examples), train_options.device,
                      folder / fmt::format("samples-{:06d}", step));
  };
  const auto show = [&](const AdamWState& state, int64_t step) {
    write_model(state);
    show_samples(step);
  };
  const Loss loss = teacher_loss(options, train_options, network, card, shape);
  const FolderLock lock = claim(options, train_options);
  copy_halves(card, folder);
  const AdamWState state =
      train_with_progress(options, train_options, examples, {network, loss, show});
  write_model(state);
  try_to_show([&] { show_samples(state.step); });
  fmt::print("wrote {} and {}\n", card_file.string(), card.weights.string());
}

torch::Tensor reconstructed(Autoencoder& network, const torch::Tensor& x) {
  constexpr int64_t kAtOnce = 32;
  std::vector<torch::Tensor> parts;
  for (const auto& part : x.split(kAtOnce)) {
    parts.push_back(network.decoder().forward(network.encoder().forward(part)));
  }
  return torch::cat(parts);
}

// Originals above what comes back of them.
void write_reconstructions(Autoencoder& network, const Examples& examples,
                           const std::filesystem::path& path) {
  constexpr int64_t kShown = 10;
  torch::NoGradGuard no_grad;
  const torch::Tensor x = examples.slice(0, std::min(kShown, examples.count())).samples.cpu();
  const torch::Tensor both = torch::cat({x, reconstructed(network, x)});
  write_png(path, image_grid(to_bytes(both, -1, 1), {x.size(0), 2, zoom_to_see(both)}));
}

// Of sounds in SNR, as they are measured everywhere.
std::string reconstruction_quality(Autoencoder& network, const Examples& examples) {
  constexpr int64_t kMeasured = 512;
  torch::NoGradGuard no_grad;
  const torch::Tensor x = examples.slice(0, std::min(kMeasured, examples.count())).samples.cpu();
  const torch::Tensor back = reconstructed(network, x);
  if (!examples.shape().is_sound()) return fmt::format("{:.1f} dB", mean_psnr(back, x));
  return fmt::format("SNR {:.1f} dB", mean_snr(mean_squared_errors(back, x),
                                               mean_squared_errors(x, torch::zeros_like(x))));
}

// Originals and what comes back of them, to be looked at or listened to.
void show_reconstructions(Autoencoder& network, const Examples& examples, int sample_rate,
                          const std::filesystem::path& folder) {
  if (sample_rate == 0) {
    write_reconstructions(network, examples, folder / "reconstructions.png");
    return;
  }
  constexpr int64_t kHeard = 4;
  torch::NoGradGuard no_grad;
  const torch::Tensor x = examples.slice(0, std::min(kHeard, examples.count())).samples.cpu();
  const torch::Tensor back = reconstructed(network, x);
  std::vector<torch::Tensor> pictures;
  for (int64_t i = 0; i < x.size(0); ++i) {
    write_wav(folder / fmt::format("original-{}.wav", i), x[i], sample_rate);
    write_wav(folder / fmt::format("reconstruction-{}.wav", i), back[i], sample_rate);
    for (const auto& sound : {x[i], back[i]}) {
      pictures.push_back(spectrogram_image(sound.mean(0), sample_rate));
    }
  }
  write_png(folder / "reconstructions.png", torch::cat(pictures, 1));
}

std::shared_ptr<Autoencoder> make_halves(const TrainCommandOptions& options,
                                         const NetworkShape& shape) {
  if (options.is_codec()) return make_audio_codec(shape, options.codec);
  return make_autoencoder(shape, options.autoencoder);
}

void train_autoencoder(const TrainCommandOptions& options, const TrainOptions& train_options,
                       const Dataset& data, const std::optional<Dataset>& test) {
  const Examples examples(data, train_options.device);
  const NetworkShape shape = examples.shape();
  const auto network = make_halves(options, shape), averaged = make_halves(options, shape);
  fmt::print("{} of {:.2f} million weights, latents of {}\n", options.network,
             1e-6 * static_cast<double>(weight_count(*network)),
             fmt::join(network->latent_shape(), "x"));
  const FolderLock lock = claim(options, train_options);
  const Loss loss = options.is_codec() ? codec_loss(network, options.codec.hop(),
                                                    train_options.device, train_options.dtype)
                                       : reconstruction_loss(network, train_options.dtype);
  const AdamWState state = train_with_progress(options, train_options, examples,
                                               {network, loss, [](const AdamWState&, int64_t) {}});
  set_weights(*averaged, state.average.to(torch::kCPU));
  const std::filesystem::path folder = options.output;
  const Examples measured(test ? *test : data, torch::kCPU);
  write_latent_space(*averaged, shape, Examples(data, torch::kCPU),
                     {data.sample_rate, options.codec.margin()}, folder);
  try_to_show([&] { show_reconstructions(*averaged, measured, data.sample_rate, folder); });
  fmt::print("{} on {} examples; wrote {}\n", reconstruction_quality(*averaged, measured),
             test ? "test" : "training", (folder / "autoencoder.json").string());
}

void train_classifier(const TrainCommandOptions& options, const TrainOptions& train_options,
                      const Dataset& data, const std::optional<Dataset>& test) {
  const Examples examples(data, train_options.device);
  const NetworkShape shape = examples.shape();
  const auto network = std::make_shared<Classifier>(shape);
  const auto averaged = std::make_shared<Classifier>(shape);
  fmt::print("classifier of {:.2f} million weights\n",
             1e-6 * static_cast<double>(weight_count(*network)));
  const FolderLock lock = claim(options, train_options);
  const AdamWState state = train_with_progress(
      options, train_options, examples,
      {network, class_loss(network, train_options.dtype), [](const AdamWState&, int64_t) {}});
  set_weights(*averaged, state.average.to(torch::kCPU));
  const std::filesystem::path folder = options.output;
  constexpr char kFeatures[] = "features.pt", kClassifier[] = "classifier.pt";
  export_features(*averaged, shape, folder / kFeatures);
  export_classifier(*averaged, shape, folder / kClassifier);
  write_judge(folder, kClassifier, data.classes, shape.sample);
  if (test) {
    averaged->to(train_options.device);
    fmt::print(
        "accuracy {:.1f} % on {} examples\n",
        100 * accuracy(*averaged, Examples(*test, train_options.device), train_options.batch),
        test->labels.size(0));
  }
  fmt::print("wrote {}: [batch, {}] features\n", (folder / kFeatures).string(),
             Classifier::kFeatures);
}

std::optional<Dataset> read_test_data(const TrainCommandOptions& options, const Dataset& data) {
  if (options.test.empty()) return std::nullopt;
  DatasetOptions wanted;
  wanted.channels = data.samples.size(1);
  // Images that are not square keep the size most of them have.
  const bool square = data.sample_rate > 0 || data.samples.size(-1) == data.samples.size(-2);
  if (square) wanted.size = data.samples.size(-1);
  Dataset test = read_with_progress({options.test}, wanted);
  if (test.classes != data.classes ||
      test.samples.sizes().slice(1) != data.samples.sizes().slice(1)) {
    throw bad_input(
        "{} has other classes or shapes than the training data; test on data of its kind",
        options.test);
  }
  return test;
}

void run_train(const TrainCommandOptions& options) {
  options.check();
  refuse_unless_resumed(options.output, options.resume);
  const TrainOptions train_options = resolve_device(options);
  const Dataset data = read_training_data(options);
  const auto test = read_test_data(options, data);
  torch::manual_seed(options.train.seed);
  if (options.is_classifier()) {
    train_classifier(options, train_options, data, test);
  } else if (options.is_autoencoder() || options.is_codec()) {
    train_autoencoder(options, train_options, data, test);
  } else {
    train_teacher(options, train_options, data);
  }
}

void add_network_command(CLI::App& app, const std::string& network, const std::string& help) {
  auto options = std::make_shared<TrainCommandOptions>(network);
  auto* command = app.add_subcommand(network, help);
  options->add_to(*command);
  add_retired_option(*command, "--network", "the network is the command: bespoke-train " + network);
  command->callback([options] { run_train(*options); });
}

}  // namespace

void add_transformer_command(CLI::App& app) {
  add_network_command(
      app, "transformer",
      "Train a diffusion transformer over patches of images, latents or sounds: a teacher to find\n"
      "solvers for.\n\n"
      "Examples:\n"
      "  bespoke-train transformer --data photos.zip --flip --steps 20000 -o teacher\n"
      "  bespoke-train transformer --data digits --patch 40 -o speech\n"
      "  bespoke-train transformer --data speech/train.safetensors --captions speech/train.txt "
      "--latents codec --infill -o infill");
}

void add_unet_command(CLI::App& app) {
  add_network_command(
      app, "unet",
      "Train a U-Net on images or their latents: a teacher to find solvers for.\n\n"
      "Examples:\n"
      "  bespoke-train unet --data photos --schedule vp --prediction noise -o teacher");
}

void add_autoencoder_command(CLI::App& app) {
  add_network_command(
      app, "autoencoder",
      "Train an autoencoder of images: --latents gives what it makes of them to a model.\n\n"
      "Examples:\n"
      "  bespoke-train autoencoder --data photos.zip --test held-out.zip -o codes\n"
      "  bespoke-train transformer --data photos.zip --latents codes --patch 2 -o teacher");
}

void add_audio_codec_command(CLI::App& app) {
  add_network_command(
      app, "audio-codec",
      "Train an autoencoder of sounds: --latents gives what it makes of them to a model.\n\n"
      "Examples:\n"
      "  bespoke-train audio-codec --data speech/train.safetensors -o codec");
}

void add_classifier_command(CLI::App& app) {
  add_network_command(
      app, "classifier",
      "Train a classifier of images or sounds: its features are what Fréchet distances are taken\n"
      "in, and 'bespoke compare --judge' counts with it.\n\n"
      "Examples:\n"
      "  bespoke-train classifier --data photos.zip --test held-out.zip -o classifier\n"
      "  bespoke compare --model model.json --features classifier/features.pt");
}

}  // namespace bespoke
