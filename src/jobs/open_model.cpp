#include "bespoke/jobs/open_model.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
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
#include "bespoke/base/sha256.h"
#include "bespoke/base/spec.h"
#include "bespoke/base/text.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/mixture.h"
#include "bespoke/model/network_trial.h"
#include "bespoke/recipe/mpi_team.h"
#include "memory_limit.h"

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

void open_analytic(OpenModel& open) {
  const AnalyticModel analytic = parse_analytic(open.name);
  const int64_t classes = analytic.mixture.class_count();
  open.model = mixture_model(analytic.mixture, analytic.schedule, analytic.prediction, open.dtype);
  open.card.name = open.name;
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

void tell(const ModelRequest& request, const std::string& note) {
  if (request.on_note) request.on_note(note);
}

// None where a call fails: what is wrong with the network's output shows where it is run.
std::optional<NetworkTrialResult> trial_of(const ModelRequest& request, const OpenModel& open) {
  if (request.trial == NetworkTrial::none) return std::nullopt;
  try {
    return try_network(*open.model, open.card, open.device);
  } catch (const std::exception&) {
    if (request.trial == NetworkTrial::insist) throw;
    return std::nullopt;
  }
}

void try_calls(const ModelRequest& request, const OpenModel& open) {
  const std::optional<NetworkTrialResult> found = trial_of(request, open);
  if (!found) return;
  refuse_unless_it_repeats(open.name, found->repeat_difference);
  // Where each sample is called for alone, there is nothing to mix.
  const bool alone = request.one_by_one || request.batch == 1;
  if (alone || !(found->batch_difference > kMostDifference)) return;
  tell(request,
       fmt::format("warning: {}: a sample's output changes with those beside it, by {:.2g} of its "
                   "size, so samples depend on each other; export the network in eval mode, or add "
                   "--one-by-one",
                   open.name, found->batch_difference));
}

void open_card(const ModelRequest& request, OpenModel& open) {
  open.card = read_model_card(request.card);
  open.device = parse_device(request.device, *request.team);
  const NetworkOptions running = {open.device, open.dtype, request.one_by_one, request.graphs,
                                  request.on_note};
  open.network = load_network(open.card, running);
  open.model = network_model(open.network, open.card);
  if (open.card.decoder) open.decoder = std::make_shared<Decoder>(*open.card.decoder, running);
  if (open.card.encoder) open.encoder = std::make_shared<Encoder>(open.card, running);
  try_calls(request, open);
}

// What the sounds are as conditions: the text of each, and what is heard around its gap.
void open_utterances(const ModelRequest& request, OpenModel& open) {
  const std::string& folder = request.utterances;
  if (folder.empty()) return;
  if (!open.encoder) {
    throw usage_error("--utterances is for models that fill gaps, {} does not", open.name);
  }
  const auto sounds = std::make_shared<GappedSounds>(read_gapped_sounds(folder, open.card));
  for (const auto& note : sounds->notes) tell(request, folder + ": " + note);
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
int usual_threads(const LocalPlace& place) {
  cpu_set_t set;
  const auto machine = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int own = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : machine;
  const int together = place.size;
  const double granted = std::ceil(cpu_quota() / together);  // infinite without a quota
  const int cores = own < machine ? own : machine / together;
  return std::max(1, static_cast<int>(std::min<double>(cores, granted)));
}

void set_threads(int threads, const Team& team) {
  constexpr int kMost = 1024;  // beyond what the OpenMP library ends the process by itself
  if (threads < 0 || threads > kMost) {
    throw usage_error("--threads must be from 0 to {}, found {}", kMost, threads);
  }
  // Asked for explicitly: LibTorch's own default is one thread on some virtual machines.
  const int chosen = threads > 0 ? threads : usual_threads(local_place(team));
  at::set_num_threads(chosen);
  take_memory_of_threads(chosen);
}

// Processes on one machine have a GPU each, as far as there are GPUs.
torch::Device usual_device(const LocalPlace& place) {
  const auto devices = static_cast<int>(torch::cuda::device_count());
  const int index = devices == 0 ? 0 : place.rank % devices;
  return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(index));
}

torch::Device parse_device(const std::string& name, const Team& team) {
  if (name == "cpu") return torch::kCPU;
  if (name == "auto" && !torch::cuda::is_available()) return torch::kCPU;
  const bool is_usual = name == "auto" || (name == "cuda" && torch::cuda::is_available());
  if (is_usual) return usual_device(local_place(team));
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

Execution execution_on(const OpenModel& open) {
  Execution execution;
  execution.device = open.device;
  execution.dtype = open.state_dtype();
  return execution;
}

torch::ScalarType OpenModel::state_dtype() const {
  return dtype == torch::kDouble ? torch::kDouble : torch::kFloat;
}

std::string OpenModel::title() const {
  const std::string clip = card.clip ? ", " + to_string(*card.clip) : "";
  return fmt::format("{}, {} path, {} prediction{}, {}, {}", name, card.schedule->name(),
                     to_string(card.prediction), clip, to_string(guidance), precision);
}

OpenModel open_model(const ModelRequest& request) {
  if (request.batch < 1) throw usage_error("--batch must be at least 1, found {}", request.batch);
  set_threads(request.threads, *request.team);
  OpenModel open;
  open.name = request.name;
  open.guidance = request.guidance;
  open.precision = request.precision;
  open.dtype = parse_dtype(request.precision);
  allow_tf32(open.is_tf32());
  if (request.name.rfind("analytic:", 0) == 0) {
    open_analytic(open);
  } else {
    open_card(request, open);
  }
  open_utterances(request, open);
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
  return guided_model(open.model, open.guidance, conditions_on(null, open.device));
}

void check_decoded_space(const OpenModel& open, bool decoded) {
  if (!decoded || open.decoder) return;
  throw usage_error("--space decoded needs a card with a decoder, {} has none", open.name);
}

ValueRange value_range(const OpenModel& open, bool decoded) {
  if (decoded) return {open.decoder->card().least, open.decoder->card().most};
  return {open.card.least, open.card.most};
}

}  // namespace bespoke
