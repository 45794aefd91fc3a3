#include "distill_options.h"

#include <algorithm>

#include "bespoke/core/error.h"
#include "bespoke/core/spec.h"
#include "bespoke/core/text.h"
#include "bespoke/solver/catalogue.h"
#include "space_option.h"

namespace bespoke {

namespace {

FamilyPtr make_family(const std::string& name, int nfe) {
  if (name == "bns") return bns_family(nfe);
  if (name == "bst-rk1") return bst_family(ScaleTimeBase::rk1, nfe);
  if (name == "bst" || name == "bst-rk2") return bst_family(ScaleTimeBase::rk2, nfe);
  throw Error(ErrorKind::usage, unknown_name("family", name, {"bns", "bst", "bst-rk1", "bst-rk2"}));
}

LmOptions parse_lm(const std::string& text) {
  LmOptions options;
  const Spec spec = Spec::parse(text.empty() ? "lm" : "lm:" + text);
  spec.allow_only({"probes", "averaging", "smoothing", "damping", "shrink", "lookahead"});
  options.probes = static_cast<int>(spec.integer("probes", options.probes));
  options.averaging = spec.number("averaging", options.averaging);
  options.smoothing = spec.number("smoothing", options.smoothing);
  options.damping = spec.number("damping", options.damping);
  options.shrink = spec.number("shrink", options.shrink);
  options.lookahead = spec.number("lookahead", options.lookahead);
  return options;
}

}  // namespace

void DistillCommandOptions::add_to(CLI::App& command) {
  command.add_option("--cond", conditions,
                     "conditions of the pairs, where they are made now: as for 'bespoke pairs'");
  command.add_option("--pairs", pairs,
                     "folder made by 'bespoke pairs'; default: made now, in the run's folder");
  command.add_option("--nfe", nfe, "evaluations, one or a list such as 4-20+2")
      ->capture_default_str();
  command
      .add_option("--family", family,
                  "bns (every Non-Stationary solver), bst or bst-rk2, bst-rk1 (scale-time)")
      ->capture_default_str();
  command
      .add_option(
          "--init", init,
          "solvers to start from, comma-separated: names, NAME/GRID, NAME@SCHEDULE in that "
          "schedule's coordinates, or files; auto: the catalogue's nearest on each of five grids "
          "and the result for fewer evaluations; the best after short trials goes on")
      ->capture_default_str();
  command.add_option("--optimizer", optimizer, "lm (Levenberg-Marquardt) or adam")
      ->capture_default_str();
  command.add_option(
      "--lm", lm,
      "settings of lm, KEY=VALUE,...: averaging, smoothing, damping, shrink, lookahead, probes "
      "(docs/distillation.md)");
  command.add_option("--adam-decay", adam_decay, "polynomial (rate 5e-4) or cosine (rate 1e-4)")
      ->capture_default_str();
  command
      .add_option("--sigma0", sigma_0,
                  "sigma_0 preconditioning of the start, a number or auto, which tries a few")
      ->capture_default_str();
  command.add_option(
      "--iterations", iterations,
      "of each start, at most; default 60 (lm, ends by itself before) or 15000 (adam)");
  command.add_option("--train-batch", batch,
                     "pairs of one iteration; default 128 (lm) or 40 (adam)");
  command.add_option("--max-forwards", most_forwards,
                     "model evaluations to spend on training, counted per sample; default any");
  command.add_option("--max-pairs", most_pairs, "use only the first training pairs");
  command
      .add_option("--memory", memory,
                  "high keeps the graphs of all steps, low rebuilds them one at a time; auto: "
                  "high on CUDA")
      ->capture_default_str();
  command.add_option("--seed", seed, "of batches and probes")->capture_default_str();
  command.add_flag("--resume", resume, "go on with the run in the folder");
  model.add_to(command);
  add_space_option(command, space);
  command.add_option("-o,--output", output, "folder of the run and its solvers")->required();
}

std::vector<int64_t> DistillCommandOptions::nfes() const {
  auto list = parse_integer_list(nfe, "--nfe");
  for (const int64_t one : list) check_nfe(one);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

void DistillCommandOptions::check_numbers() const {
  if (!pairs.empty() && !conditions.empty()) {
    throw usage_error("--pairs brings its own conditions; leave out --cond");
  }
  if (iterations < 0 || batch < 0 || most_forwards < 0 || most_pairs < 0 || seed < 0) {
    throw usage_error(
        "--iterations, --train-batch, --max-forwards, --max-pairs and --seed must "
        "not be negative");
  }
}

DistillOptions distill_options(const DistillCommandOptions& options, const OpenModel& open, int nfe,
                               bool decoded) {
  DistillOptions result;
  result.family = make_family(options.family, nfe);
  result.optimizer = parse_optimizer(options.optimizer);
  result.iterations = options.iterations;
  result.most_forwards = options.most_forwards;
  result.seed = static_cast<uint64_t>(options.seed);
  if (options.adam_decay == "cosine") {
    result.adam.decay = RateDecay::cosine;
    result.adam.rate = 1e-4;
  } else if (options.adam_decay != "polynomial") {
    throw Error(ErrorKind::usage,
                unknown_name("decay", options.adam_decay, {"polynomial", "cosine"}));
  }
  result.lm = parse_lm(options.lm);
  if (options.batch > 0) result.lm.batch = result.adam.batch = options.batch;
  result.objective.device_batch = options.model.batch;
  result.objective.peak = value_peak(open, decoded);
  if (decoded) {
    result.objective.decode = [&open](const torch::Tensor& x) { return open.decoder->decode(x); };
  }
  const bool high = options.memory == "high" || (options.memory == kAuto && open.device.is_cuda());
  if (!high && options.memory != "low" && options.memory != kAuto) {
    throw Error(ErrorKind::usage, unknown_name("memory", options.memory, {"auto", "low", "high"}));
  }
  result.objective.memory = high ? Memory::high : Memory::low;
  return result;
}

}  // namespace bespoke
