#include "options/model_options.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bespoke/base/cpu_quota.h"
#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/message.h"
#include "bespoke/base/sha256.h"
#include "bespoke/base/spec.h"
#include "bespoke/base/text.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/mixture.h"
#include "bespoke/model/network_trial.h"
#include "options/condition_options.h"
#include "options/retired_options.h"
#include "runs/embedded_models.h"
#include "runs/memory_limit.h"
#include "runs/team.h"

namespace bespoke {

using namespace detail;

namespace {

Mixture parse_mixture(const Spec& spec) {
  spec.allow_only({"dim", "components", "classes", "seed", "spread", "min_deviation",
                   "max_deviation", "prediction"});
  RandomMixtureOptions options;
  options.dimension = spec.integer("dim", options.dimension);
  options.components = spec.integer("components", options.components);
  options.classes = spec.integer("classes", options.classes);
  const int64_t seed = spec.integer("seed", 0);
  if (seed < 0) throw usage_error("mixture:seed must not be negative, found {}", seed);
  options.seed = static_cast<uint64_t>(seed);
  options.spread = spec.number("spread", options.spread);
  options.min_deviation = spec.number("min_deviation", options.min_deviation);
  options.max_deviation = spec.number("max_deviation", options.max_deviation);
  return random_mixture(options);
}

// An analytic model by name, "analytic:mixture:dim=4,prediction=noise@vp": a mixture of Gaussians,
// what its field is given as, and the schedule of its path.
struct AnalyticModel {
  Mixture mixture;
  Prediction prediction;
  SchedulePtr schedule;
};

AnalyticModel parse_analytic(const std::string& text) {
  const size_t at = text.find('@');
  const std::string prefix = "analytic:", head = text.substr(0, at);
  const Spec spec = Spec::parse(head.rfind(prefix, 0) == 0 ? head.substr(prefix.size()) : "");
  if (spec.name != "mixture") {
    throw usage_error("unknown model '{}'; write analytic:mixture or analytic:mixture:dim=192,...",
                      text);
  }
  const auto prediction = spec.options.find("prediction");
  return {parse_mixture(spec),
          parse_prediction(prediction == spec.options.end() ? "velocity" : prediction->second),
          make_schedule(at == std::string::npos ? "fm-ot" : text.substr(at + 1))};
}

constexpr char kTf32[] = "tf32";

const std::map<std::string, torch::ScalarType>& dtypes() {
  static const std::map<std::string, torch::ScalarType> table = {{"fp32", torch::kFloat},
                                                                 {kTf32, torch::kFloat},
                                                                 {"fp64", torch::kDouble},
                                                                 {"bf16", torch::kBFloat16},
                                                                 {"fp16", torch::kHalf}};
  return table;
}

torch::ScalarType parse_dtype(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& entry : dtypes()) names.push_back(entry.first);
  const auto found = dtypes().find(name);
  if (found == dtypes().end()) throw Error(ErrorKind::usage, unknown_name("dtype", name, names));
  return found->second;
}

// LibTorch's own default multiplies in TF32 inside convolutions, with 10 bits after the point.
// Pairs made so may differ from the model's samples by as much as a good solver does.
void allow_tf32(bool allow) {
  at::globalContext().setAllowTF32CuDNN(allow);
  at::globalContext().setAllowTF32CuBLAS(allow);
}

void open_analytic(const ModelOptions& options, OpenModel& open) {
  const AnalyticModel analytic = parse_analytic(options.model);
  const int64_t classes = analytic.mixture.class_count();
  open.model = mixture_model(analytic.mixture, analytic.schedule, analytic.prediction, open.dtype);
  open.card.name = options.model;
  open.card.format = "analytic";
  open.card.sample_shape = open.model->sample_shape();
  open.card.prediction = open.model->prediction();
  open.card.schedule = open.model->schedule();
  if (classes > 0) {
    ConditionCard condition;
    condition.name = "class";
    condition.classes = condition.null = classes;
    open.card.conditions = {condition};
  }
}

// Where each sample is called for alone, there is nothing to mix. What is wrong with the network
// otherwise shows where it is run.
void try_batch(const ModelOptions& options, const OpenModel& open) {
  const bool alone = options.one_by_one || options.batch == 1;
  if (options.trial == NetworkTrial::none || (alone && options.trial == NetworkTrial::warn)) return;
  double difference = 0;
  try {
    difference = try_network(*open.model, open.card, open.device);
  } catch (const std::exception&) {
    if (options.trial == NetworkTrial::insist) throw;
  }
  if (!(difference > kMostBatchDifference)) return;
  say("bespoke: warning: {}: a sample's output changes with those beside it, by {:.2g} of its "
      "size, "
      "so samples depend on each other; export the network in eval mode, or add --one-by-one",
      open.name, difference);
}

void open_card(const ModelOptions& options, OpenModel& open) {
  const auto embedded = embedded_card(options.model);
  open.card = read_model_card(embedded.empty() ? std::filesystem::path(options.model) : embedded);
  open.device = parse_device(options.device);
  const NetworkOptions running = {open.device, open.dtype, options.one_by_one, !options.no_graphs,
                                  [](const std::string& note) { say("bespoke: {}", note); }};
  open.network = load_network(open.card, running);
  open.model = network_model(open.network, open.card);
  if (open.card.decoder) open.decoder = std::make_shared<Decoder>(*open.card.decoder, running);
  if (open.card.encoder) open.encoder = std::make_shared<Encoder>(open.card, running);
  try_batch(options, open);
}

// What the sounds are as conditions: the text of each, and what is heard around its gap.
void open_utterances(const std::string& folder, OpenModel& open) {
  if (folder.empty()) return;
  if (!open.encoder) {
    throw usage_error("--utterances is for models that fill gaps, {} does not", open.name);
  }
  const auto sounds = std::make_shared<GappedSounds>(read_gapped_sounds(folder, open.card));
  for (const auto& note : sounds->notes) say("bespoke: {}: {}", folder, note);
  open.utterance_rows = gap_conditions(sounds->windows(), *open.encoder, open.card);
  for (const auto& condition : open.card.conditions) {
    if (!condition.is_text()) continue;
    std::vector<torch::Tensor> rows;
    for (const auto& sound : sounds->sounds) {
      rows.push_back(
          read_checked(folder + "/" + sound.file, [&] { return text_row(condition, sound.text); }));
    }
    open.utterance_rows[condition.name] = torch::cat(rows);
  }
  open.utterances = sounds;
}

GuidanceWeight read_guidance(const ModelOptions& options) {
  if (!options.guidance.empty() && !options.guidance_scale.empty()) {
    throw usage_error("--guidance w and --guidance-scale 1 + w say the same thing; give one");
  }
  GuidanceWeight weight;
  if (!options.guidance.empty()) weight = parse_guidance(options.guidance, false, "--guidance");
  if (!options.guidance_scale.empty()) {
    weight = parse_guidance(options.guidance_scale, true, "--guidance-scale");
  }
  if (!options.guidance_interval.empty()) {
    if (weight.is_zero()) throw usage_error("--guidance-interval goes with --guidance");
    parse_guidance_interval(weight, options.guidance_interval, "--guidance-interval");
  }
  return weight;
}

void check_guidance(const OpenModel& open) {
  if (open.guidance.is_zero()) return;
  const auto& conditions = open.card.conditions;
  const bool possible = std::any_of(conditions.begin(), conditions.end(),
                                    [](const ConditionCard& c) { return c.has_null(); });
  if (!possible) {
    throw bad_input("--guidance needs a condition with a null value, {} has none", open.name);
  }
}

nlohmann::json describe_identity(const OpenModel& open) {
  const ModelCard& card = open.card;
  nlohmann::json json = {{"name", card.name},
                         {"prediction", to_string(card.prediction)},
                         {"schedule", card.schedule->describe()}};
  if (!open.network) return json;
  json["weights_sha256"] = sha256(read_file(card.weights));
  json["time"] = {
      {"convention", time_convention_names()[static_cast<size_t>(card.time.convention)]},
      {"scale", card.time.scale},
      {"levels", card.time.levels},
      {"integer", card.time.integer}};
  json["input_scaling"] = card.input_scaling == InputScaling::edm ? "edm" : "none";
  // Only where the card has them, so that what was made before there were such keys stays known.
  if (card.clip) json["clip"] = describe(*card.clip);
  if (card.extra_channels > 0) json["extra_channels"] = card.extra_channels;
  if (card.channels_last) json["layout"] = "channels-last";
  for (const SamplePart& part : card.parts) json["parts"].push_back({part.name, part.shape});
  for (const auto& condition : card.conditions) {
    json["conditions"][condition.name] = {
        {"classes", condition.classes}, {"shape", condition.shape}, {"null", condition.null}};
    if (!condition.null_file.empty()) {
      json["conditions"][condition.name]["null_sha256"] = sha256(read_file(condition.null_file));
    }
  }
  if (card.decoder) {
    json["decoder"] = {{"weights_sha256", sha256(read_file(card.decoder->weights))},
                       {"scale", card.decoder->scale},
                       {"shift", card.decoder->shift}};
  }
  if (card.encoder)
    json["encoder"] = {{"weights_sha256", sha256(read_file(card.encoder->weights))}};
  return json;
}

}  // namespace

// Processes on one machine have their part of it each, unless they are bound to it already, as
// mpirun binds them; of a container with a quota, as many as its time is enough for.
int usual_threads() {
  cpu_set_t set;
  const auto machine = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int own = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : machine;
  const int together = place_on_machine().size;
  const double granted = std::ceil(cpu_quota() / together);  // infinite without a quota
  const int cores = own < machine ? own : machine / together;
  return std::max(1, static_cast<int>(std::min<double>(cores, granted)));
}

void set_threads(int threads) {
  constexpr int kMost = 1024;  // beyond what the OpenMP library ends the process by itself
  if (threads < 0 || threads > kMost) {
    throw usage_error("--threads must be from 0 to {}, found {}", kMost, threads);
  }
  // Asked for explicitly: LibTorch's own default is one thread on some virtual machines.
  const int chosen = threads > 0 ? threads : usual_threads();
  at::set_num_threads(chosen);
  take_memory_of_threads(chosen);
}

// Processes on one machine have a GPU each, as far as there are GPUs.
torch::Device usual_device() {
  const auto devices = static_cast<int>(torch::cuda::device_count());
  const int index = devices == 0 ? 0 : place_on_machine().rank % devices;
  return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(index));
}

torch::Device parse_device(const std::string& name) {
  if (name == "cpu") return torch::kCPU;
  if (name == "auto" && !torch::cuda::is_available()) return torch::kCPU;
  if (name == "auto" || name == "cuda") return usual_device();
  const std::string prefix = "cuda";
  if (name.rfind(prefix, 0) != 0)
    throw usage_error("--device is auto, cpu or cuda:N, found '{}'", name);
  const auto devices = static_cast<int64_t>(torch::cuda::device_count());
  const int64_t index =
      name == prefix ? 0 : parse_integer(name.substr(prefix.size() + 1), "--device cuda:N");
  if (index < 0 || index >= devices) {
    throw Error(ErrorKind::device,
                fmt::format("no device {}: this machine has {} CUDA devices; use "
                            "--device cpu",
                            name, devices));
  }
  return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(index));
}

void ModelOptions::add_to(CLI::App& command) {
  command
      .add_option("--model", model,
                  "a model card (model.json), an embedded model (" +
                      fmt::format("{}", fmt::join(embedded_model_names(), ", ")) +
                      "), or analytic:mixture with options as "
                      "analytic:mixture:dim=192,components=12,classes=0,seed=0,spread=0.6,"
                      "min_deviation=0.08,max_deviation=0.23,prediction=velocity@SCHEDULE")
      ->capture_default_str();
  add_retired_option(command, "--schedule",
                     "a card says its own; of an analytic model write --model analytic:mixture@vp");
  add_retired_option(command, "--prediction",
                     "a card says its own; of an analytic model write --model "
                     "analytic:mixture:prediction=noise");
  command.add_option("--guidance", guidance,
                     "classifier-free guidance w, u = (1+w) u(x|y) - w u(x); default 0, unguided; "
                     "a range such as 0-4, where each sample has a w of its own, spread evenly; "
                     "over time as t:w,t:w,... (t = 0 noise, 1 data), linear in between");
  command.add_option("--guidance-scale", guidance_scale,
                     "the same in the convention of other tools, 1 + w; 1 is unguided");
  command.add_option("--guidance-interval", guidance_interval,
                     "FROM,TO in t: outside, w = 0 and the unconditional pass is skipped");
  add_running_to(command);
}

void ModelOptions::add_utterances_to(CLI::App& command) {
  command.add_option(
      "--utterances", utterances,
      "of a model that fills gaps: a folder of WAVs with a manifest.jsonl, a line "
      "for each with \"file\", \"text\" and \"span\"; they are its conditions, in turn");
}

void ModelOptions::add_running_to(CLI::App& command) {
  command.add_option("--batch", batch, "samples computed at a time")->capture_default_str();
  command
      .add_option(
          "--dtype", dtype,
          "precision of the model: fp32, tf32 (fp32, on CUDA with coarser products), fp64, bf16, "
          "fp16; the state is fp32 or better")
      ->capture_default_str();
  command.add_option("--device", device, "where a card's model runs: auto, cpu, cuda:N")
      ->capture_default_str();
  command.add_option("--threads", threads, "CPU threads, 0 for all")->capture_default_str();
  command.add_flag(
      "--one-by-one", one_by_one,
      "call a card's model on each sample alone: slower, but no bit of a sample depends "
      "on --batch, --count or the samples beside it");
  command.add_flag("--no-graphs", no_graphs,
                   "on CUDA, launch each kernel of a card's model by itself: slower for small "
                   "batches, for a model that CUDA graphs do not suit");
}

bool OpenModel::is_tf32() const { return precision == kTf32; }

FieldDescription OpenModel::field() const {
  FieldDescription field = {card.prediction, card.schedule, guidance};
  if (network) field.time = describe(card.time, card.input_scaling);
  field.clip = card.clip;
  return field;
}

const nlohmann::json& OpenModel::identity() const {
  if (!identity_) identity_ = describe_identity(*this);
  return *identity_;
}

torch::ScalarType OpenModel::state_dtype() const {
  return dtype == torch::kDouble ? torch::kDouble : torch::kFloat;
}

std::string OpenModel::title() const {
  const std::string clip = card.clip ? ", " + to_string(*card.clip) : "";
  return fmt::format("{}, {} path, {} prediction{}, {}, {}", name, card.schedule->name(),
                     to_string(card.prediction), clip, to_string(guidance), precision);
}

OpenModel open_model(const ModelOptions& options) {
  if (options.batch < 1) throw usage_error("--batch must be at least 1, found {}", options.batch);
  set_threads(options.threads);
  OpenModel open;
  open.name = options.model;
  open.guidance = read_guidance(options);
  open.precision = options.dtype;
  open.dtype = parse_dtype(options.dtype);
  allow_tf32(open.is_tf32());
  if (options.model.rfind("analytic:", 0) == 0) {
    open_analytic(options, open);
  } else {
    open_card(options, open);
  }
  open_utterances(options.utterances, open);
  check_guidance(open);
  return open;
}

ModelPtr guided(const OpenModel& open, const Conditions& conditions) {
  if (open.guidance.is_zero()) return open.model;
  Conditions null;
  bool any_given = false;
  for (const auto& condition : open.card.conditions) {
    const auto found = conditions.find(condition.name);
    if (found == conditions.end() || !condition.has_null()) continue;
    null[condition.name] = null_value(condition);
    any_given = any_given || !found->second.eq(null[condition.name]).all().item<bool>();
  }
  if (!any_given) {
    const auto& known = open.card.conditions;
    const auto guidable = std::find_if(known.begin(), known.end(),
                                       [](const ConditionCard& c) { return c.has_null(); });
    throw usage_error("--guidance needs a condition that has a null value, e.g. --cond {}={}",
                      guidable->name, guidable->is_tensor() ? "FILE.safetensors" : "0");
  }
  return guided_model(open.model, open.guidance, near(null, open.device));
}

}  // namespace bespoke
