#include "options/model_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "options/retired_options.h"
#include "runs/embedded_models.h"
#include "runs/team.h"

namespace bespoke {

using namespace detail;

namespace {

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

}  // namespace

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

OpenModel open_model(const ModelOptions& options) {
  const auto embedded = embedded_card(options.model);
  ModelRequest request;
  request.name = options.model;
  request.card = embedded.empty() ? std::filesystem::path(options.model) : embedded;
  request.precision = options.dtype;
  request.device = options.device;
  request.guidance = read_guidance(options);
  request.utterances = options.utterances;
  request.batch = options.batch;
  request.threads = options.threads;
  request.one_by_one = options.one_by_one;
  request.graphs = !options.no_graphs;
  request.trial = options.trial;
  request.team = &team();
  request.on_note = [](const std::string& note) { say("bespoke: {}", note); };
  return open_model(request);
}

}  // namespace bespoke
