#include "model_options.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "bespoke/core/error.h"
#include "bespoke/core/noise.h"
#include "bespoke/core/spec.h"
#include "bespoke/core/text.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/model/card.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/mixture.h"
#include "bespoke/model/torchscript.h"

namespace bespoke {

namespace {

std::string schedule_help() {
  std::vector<std::string> names;
  for (const auto& entry : schedule_registry()) names.push_back(entry.name);
  return fmt::format("noise schedule: {}, or table:FILE; options as vp:B=20,b=0.1",
                     fmt::join(names, ", "));
}

std::string prediction_help() {
  return fmt::format("what the model predicts: {}", fmt::join(prediction_names(), ", "));
}

Mixture parse_mixture(const Spec& spec) {
  spec.allow_only(
      {"dim", "components", "classes", "seed", "spread", "min_deviation", "max_deviation"});
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

Mixture load_mixture(const std::string& text) {
  const std::string prefix = "analytic:";
  const Spec spec =
      Spec::parse(text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : std::string());
  if (spec.name != "mixture") {
    throw usage_error("unknown model '{}'; write analytic:mixture or analytic:mixture:dim=192,...",
                      text);
  }
  return parse_mixture(spec);
}

const std::map<std::string, torch::ScalarType>& dtypes() {
  static const std::map<std::string, torch::ScalarType> table = {{"fp32", torch::kFloat},
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

torch::Device parse_device(const std::string& name) {
  if (name == "cpu") return torch::kCPU;
  if (name == "auto") return torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;
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

// A model and what it can be conditioned on.
struct OpenModel {
  ModelPtr model;
  std::vector<ConditionCard> conditions;
};

OpenModel open_analytic(const ModelOptions& options, torch::ScalarType dtype) {
  const Mixture mixture = load_mixture(options.model);
  const int64_t classes = mixture.class_count();
  OpenModel open;
  open.model = mixture_model(
      mixture, make_schedule(options.schedule.empty() ? "fm-ot" : options.schedule),
      parse_prediction(options.prediction.empty() ? "velocity" : options.prediction), dtype);
  if (classes > 0) open.conditions = {{"class", classes, classes}};
  return open;
}

OpenModel open_card(const ModelOptions& options, torch::ScalarType dtype) {
  if (!options.schedule.empty() || !options.prediction.empty()) {
    throw usage_error(
        "the card {} says the schedule and the prediction; leave out --schedule and "
        "--prediction",
        options.model);
  }
  const ModelCard card = read_model_card(options.model);
  return {load_torchscript(card, {parse_device(options.device), dtype}), card.conditions};
}

ConditionCard find_condition(const OpenModel& open, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& condition : open.conditions) {
    if (condition.name == name) return condition;
    names.push_back(condition.name);
  }
  if (names.empty()) {
    throw usage_error("this model has no conditions, found --cond {}; leave it out", name);
  }
  throw Error(ErrorKind::usage, unknown_name("condition", name, names));
}

// NAME=LIST: sample i gets entry i of the list, which repeats.
torch::Tensor condition_values(const ConditionCard& condition, const std::string& text,
                               int64_t count) {
  const auto list = parse_integer_list(text, "--cond " + condition.name);
  for (const int64_t value : list) {
    const bool known = (value >= 0 && value < condition.classes) || value == condition.null;
    if (!known) {
      throw bad_input("condition {} = {} is out of range; the model has 0 to {}{}", condition.name,
                      value, condition.classes - 1,
                      condition.null < 0 ? "" : fmt::format(", and {} for none", condition.null));
    }
  }
  torch::Tensor values = torch::empty({count}, torch::kLong);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = list[static_cast<size_t>(i) % list.size()];
  }
  return values;
}

Conditions parse_conditions(const OpenModel& open, const std::vector<std::string>& texts,
                            int64_t count) {
  Conditions conditions;
  for (const auto& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      throw usage_error("conditions are written --cond NAME=VALUE, found '{}'", text);
    }
    const ConditionCard condition = find_condition(open, text.substr(0, equals));
    conditions[condition.name] = condition_values(condition, text.substr(equals + 1), count);
  }
  return conditions;
}

ModelPtr with_guidance(const OpenModel& open, double w, const Conditions& conditions) {
  Conditions null;
  for (const auto& condition : open.conditions) {
    if (conditions.count(condition.name) == 0) continue;
    if (condition.null < 0) {
      throw bad_input("--guidance needs a null value of the condition {}, the card has none",
                      condition.name);
    }
    null[condition.name] = torch::full({1}, condition.null, torch::kLong);
  }
  if (null.empty()) throw usage_error("--guidance needs a condition, e.g. --cond class=3");
  return guided_model(open.model, w, null);
}

void check_ranges(const ModelOptions& options) {
  if (options.count < 0) throw usage_error("--count must be at least 1, found {}", options.count);
  if (options.seed < 0) throw usage_error("--seed must not be negative, found {}", options.seed);
  if (!std::isfinite(options.guidance)) throw usage_error("--guidance must be finite");
  if (options.batch < 1) throw usage_error("--batch must be at least 1, found {}", options.batch);
  if (options.threads < 0) throw usage_error("--threads must not be negative");
}

torch::Tensor draw_noise(const ModelOptions& options, const Model& model) {
  constexpr int64_t kDefaultCount = 64;
  return model.schedule()->source_std() *
         normal_noise(static_cast<uint64_t>(options.seed), 0,
                      options.count == 0 ? kDefaultCount : options.count, model.sample_shape());
}

torch::Tensor read_noise(const ModelOptions& options, const Model& model) {
  const TensorFile file = read_safetensors(options.noise);
  const auto found = file.tensors.find("noise");
  if (found == file.tensors.end()) {
    throw bad_input("{}: has no tensor named 'noise'", options.noise);
  }
  const torch::Tensor& noise = found->second;
  const auto shape = model.sample_shape();
  if (noise.dim() == 0 || noise.sizes().slice(1) != torch::IntArrayRef(shape)) {
    throw bad_input("{}: noise of shape {} does not fit the model's samples, [count] x {}",
                    options.noise, fmt::join(noise.sizes(), "x"), fmt::join(shape, "x"));
  }
  if (options.count > noise.size(0)) {
    throw usage_error("--count {} is more than the {} samples of {}", options.count, noise.size(0),
                      options.noise);
  }
  return options.count == 0 ? noise : noise.slice(0, 0, options.count);
}

}  // namespace

void add_path_options(CLI::App& command, std::string& schedule, std::string& prediction) {
  command.add_option("--schedule", schedule, schedule_help())->capture_default_str();
  command.add_option("--prediction", prediction, prediction_help())->capture_default_str();
}

void ModelOptions::add_to(CLI::App& command) {
  command
      .add_option("--model", model,
                  "a model card (model.json), or analytic:mixture with options as "
                  "analytic:mixture:dim=192,components=12,classes=0,seed=0,spread=0.6,"
                  "min_deviation=0.08,max_deviation=0.23")
      ->capture_default_str();
  command.add_option("--schedule", schedule,
                     schedule_help() + " (analytic models only; default fm-ot)");
  command.add_option("--prediction", prediction,
                     prediction_help() + " (analytic models only; default velocity)");
  command.add_option("--cond", conditions,
                     "condition NAME=VALUE, or a list that repeats over the samples: class=0-9");
  command
      .add_option("--guidance", guidance,
                  "classifier-free guidance w, u = (1+w) u(x|y) - w u(x); 0 is unguided "
                  "(a guidance_scale is 1 + w)")
      ->capture_default_str();
  command.add_option("--count", count, "number of samples; default 64, or all of --noise");
  command.add_option("--seed", seed, "sample i starts from noise (seed, i)")->capture_default_str();
  command.add_option("--noise", noise,
                     "start from the tensor 'noise' of this safetensors file instead");
  command.add_option("--batch", batch, "samples computed at a time")->capture_default_str();
  command
      .add_option("--dtype", dtype,
                  "precision of the model: fp32, fp64, bf16, fp16; the state is fp32 or better")
      ->capture_default_str();
  command.add_option("--device", device, "where a card's model runs: auto, cpu, cuda:N")
      ->capture_default_str();
  command.add_option("--threads", threads, "CPU threads, 0 for all")->capture_default_str();
}

LoadedModel load_model(const ModelOptions& options) {
  check_ranges(options);
  // Asked for explicitly: LibTorch's own default is one thread on some virtual machines.
  const auto all = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  at::set_num_threads(options.threads > 0 ? options.threads : all);
  const torch::ScalarType dtype = parse_dtype(options.dtype);
  const bool analytic = options.model.rfind("analytic:", 0) == 0;
  const OpenModel open = analytic ? open_analytic(options, dtype) : open_card(options, dtype);

  LoadedModel loaded;
  loaded.noise =
      options.noise.empty() ? draw_noise(options, *open.model) : read_noise(options, *open.model);
  loaded.noise =
      loaded.noise.to(analytic ? torch::Device(torch::kCPU) : parse_device(options.device),
                      dtype == torch::kDouble ? torch::kDouble : torch::kFloat);
  const int64_t count = loaded.noise.size(0);
  loaded.conditions = parse_conditions(open, options.conditions, count);
  loaded.model =
      options.guidance == 0 ? open.model : with_guidance(open, options.guidance, loaded.conditions);
  const std::string origin = options.noise.empty() ? fmt::format("of seed {}", options.seed)
                                                   : "from the noise of " + options.noise;
  loaded.title =
      fmt::format("{}, {} path, {} prediction, guidance w = {}, {} samples {}, {}", options.model,
                  loaded.model->schedule()->name(), to_string(loaded.model->prediction()),
                  options.guidance, count, origin, options.dtype);
  return loaded;
}

}  // namespace bespoke
