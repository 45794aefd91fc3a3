#include "model_options.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <thread>

#include "bespoke/core/error.h"
#include "bespoke/core/noise.h"
#include "bespoke/core/spec.h"
#include "bespoke/core/text.h"
#include "bespoke/model/guidance.h"
#include "bespoke/model/mixture.h"

namespace bespoke {

namespace {

std::string schedule_help() {
  std::vector<std::string> names;
  for (const auto& entry : schedule_registry()) names.push_back(entry.name);
  return fmt::format("noise schedule: {}, or table:FILE; options as vp:B=20,b=0.1",
                     fmt::join(names, ", "));
}

Mixture parse_mixture(const Spec& spec) {
  spec.allow_only(
      {"dim", "components", "classes", "seed", "spread", "min_deviation", "max_deviation"});
  RandomMixtureOptions options;
  options.dimension = spec.integer("dim", options.dimension);
  options.components = spec.integer("components", options.components);
  options.classes = spec.integer("classes", options.classes);
  options.seed = static_cast<uint64_t>(spec.integer("seed", 0));
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

torch::ScalarType parse_dtype(const std::string& name) {
  if (name == "fp32") return torch::kFloat;
  if (name == "fp64") return torch::kDouble;
  throw Error(ErrorKind::usage, unknown_name("dtype", name, {"fp32", "fp64"}));
}

Conditions parse_conditions(const std::vector<std::string>& texts, int64_t count) {
  Conditions conditions;
  for (const auto& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || text.substr(0, equals) != "class") {
      throw usage_error("the mixture's condition is written --cond class=N, found '{}'", text);
    }
    const int64_t value = parse_integer(text.substr(equals + 1), "--cond class");
    conditions["class"] = torch::full({count}, value, torch::kLong);
  }
  return conditions;
}

void check_ranges(const ModelOptions& options) {
  if (options.count < 1) throw usage_error("--count must be at least 1, found {}", options.count);
  if (options.batch < 1) throw usage_error("--batch must be at least 1, found {}", options.batch);
  if (options.threads < 0) throw usage_error("--threads must not be negative");
}

}  // namespace

void add_path_options(CLI::App& command, std::string& schedule, std::string& prediction) {
  command.add_option("--schedule", schedule, schedule_help())->capture_default_str();
  command
      .add_option("--prediction", prediction,
                  fmt::format("what the model predicts: {}", fmt::join(prediction_names(), ", ")))
      ->capture_default_str();
}

void ModelOptions::add_to(CLI::App& command) {
  command
      .add_option("--model", model,
                  "the model: analytic:mixture, with options as "
                  "analytic:mixture:dim=192,components=12,classes=0,seed=0,spread=0.6,"
                  "min_deviation=0.08,max_deviation=0.23")
      ->capture_default_str();
  add_path_options(command, schedule, prediction);
  command.add_option("--cond", conditions, "condition of all samples, e.g. class=3");
  command
      .add_option("--guidance", guidance,
                  "classifier-free guidance w, u = (1+w) u(x|y) - w u(x); 0 is unguided "
                  "(a guidance_scale is 1 + w)")
      ->capture_default_str();
  command.add_option("--count", count, "number of samples")->capture_default_str();
  command.add_option("--seed", seed, "sample i starts from noise (seed, i)")->capture_default_str();
  command.add_option("--batch", batch, "samples computed at a time")->capture_default_str();
  command.add_option("--dtype", dtype, "precision of model and state: fp32, fp64")
      ->capture_default_str();
  command.add_option("--threads", threads, "CPU threads, 0 for all")->capture_default_str();
}

LoadedModel load_model(const ModelOptions& options) {
  check_ranges(options);
  // Asked for explicitly: LibTorch's own default is one thread on some virtual machines.
  const auto all = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  at::set_num_threads(options.threads > 0 ? options.threads : all);
  const torch::ScalarType dtype = parse_dtype(options.dtype);
  const SchedulePtr schedule = make_schedule(options.schedule);
  const Mixture mixture = load_mixture(options.model);
  const int64_t classes = mixture.class_count();

  LoadedModel loaded;
  loaded.conditions = parse_conditions(options.conditions, options.count);
  if (!loaded.conditions.empty() && classes == 0) {
    throw usage_error("this mixture has no classes; add classes=N to --model or leave out --cond");
  }
  loaded.model = mixture_model(mixture, schedule, parse_prediction(options.prediction), dtype);
  if (options.guidance != 0) {
    if (loaded.conditions.empty()) throw usage_error("--guidance needs --cond class=N");
    loaded.model = guided_model(loaded.model, options.guidance,
                                {{"class", torch::full({1}, classes, torch::kLong)}});
  }
  loaded.noise = (schedule->source_std() *
                  normal_noise(options.seed, 0, options.count, loaded.model->sample_shape()))
                     .to(dtype);
  loaded.title =
      fmt::format("{}, {} path, {} prediction, guidance w = {}, {} samples of seed {}, {}",
                  options.model, options.schedule, options.prediction, options.guidance,
                  options.count, options.seed, options.dtype);
  return loaded;
}

}  // namespace bespoke
