#include "options/distill_options.h"

#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/base/spec.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/starts.h"
#include "bespoke/solver/named_solver.h"
#include "options/number_checks.h"
#include "options/solver_options.h"
#include "options/space_options.h"

namespace bespoke {

using namespace detail;

namespace {

FamilyPtr make_family(const std::string& name, int nfe) {
  if (name == "bns") return bns_family(nfe);
  if (name == "bst-rk1") return bst_family(ScaleTimeBase::rk1, nfe);
  if (name == "bst" || name == "bst-rk2") return bst_family(ScaleTimeBase::rk2, nfe);
  throw Error(ErrorKind::usage, unknown_name("family", name, {"bns", "bst", "bst-rk1", "bst-rk2"}));
}

DirectOptions parse_direct(const std::string& text) {
  DirectOptions options;
  const Spec spec = Spec::parse(text.empty() ? "direct" : "direct:" + text);
  spec.allow_only({"averaging", "smoothing", "damping", "shrink", "grow", "attempts", "difference",
                   "time_difference"});
  options.averaging = spec.number("averaging", options.averaging);
  options.smoothing = spec.number("smoothing", options.smoothing);
  options.damping = spec.number("damping", options.damping);
  options.shrink = spec.number("shrink", options.shrink);
  options.grow = spec.number("grow", options.grow);
  options.attempts = static_cast<int>(spec.integer("attempts", options.attempts));
  options.difference = spec.number("difference", options.difference);
  options.time_difference = spec.number("time_difference", options.time_difference);
  return options;
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
                     "folder made by 'bespoke pairs'; default: made now, in memory for direct and "
                     "fit, in the run's folder for lm and adam");
  command
      .add_option("--samples", samples,
                  "samples of the model to learn from, where direct and fit make them now")
      ->capture_default_str();
  command.add_option("--tolerance", tolerance,
                     "of the reference, where pairs are made now; default 1e-4 for direct and fit, "
                     "1e-5 for lm and adam");
  command.add_option("--nfe", nfe, "evaluations, one or a list such as 4-20+2")
      ->capture_default_str();
  command
      .add_option("--family", family,
                  "bns (every Non-Stationary solver), bst or bst-rk2, bst-rk1 (scale-time)")
      ->capture_default_str();
  command
      .add_option(
          "--init", init,
          fmt::format("solvers to start from, comma-separated, each {}; auto: the best fit on "
                      "five grids for direct, the catalogue's nearest on each of them for lm; of "
                      "several, the best after short trials goes on",
                      kSolverNames))
      ->capture_default_str();
  command
      .add_option("--method", method,
                  "direct (Gauss-Newton by differences, no gradients), fit (its start alone), lm "
                  "(Levenberg-Marquardt with gradients) or adam (the published recipe)")
      ->capture_default_str();
  command.add_option(
      "--direct", direct,
      "settings of direct, KEY=VALUE,...: averaging, smoothing, damping, shrink, grow, attempts, "
      "difference, time_difference (docs/distillation.md)");
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
  command
      .add_option("--iterations", iterations,
                  "of each start, at most; default 8 (direct) or 60 (lm), which mostly end by "
                  "themselves before, "
                  "or 15000 (adam)")
      ->check(positive_number());
  command
      .add_option("--train-batch", batch,
                  "pairs of one iteration; default 16 (direct), 128 (lm) or 40 (adam)")
      ->check(positive_number());
  command
      .add_option("--calls", most_forwards,
                  "model calls to spend on training, counted per sample: no iteration begins "
                  "beyond; default any")
      ->check(positive_number());
  command.add_option("--max-pairs", most_pairs, "use only the first training pairs")
      ->check(positive_number());
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
  if (!pairs.empty() && tolerance) {
    throw usage_error("--pairs brings its own tolerance; leave out --tolerance");
  }
  const bool in_memory = method == to_string(Method::fit) || method == to_string(Method::direct);
  if (pairs.empty() && in_memory && most_pairs > 0) {
    throw usage_error("--max-pairs goes with --pairs; give --samples instead");
  }
  if (samples < 1) throw usage_error("--samples must be at least 1, found {}", samples);
  if (seed < 0) throw usage_error("--seed must not be negative, found {}", seed);
}

namespace {

std::vector<double> sigma_0_values(const std::string& text) {
  if (text == kAuto) return {1, 0.5, 2, 5};
  const double value = parse_number(text, "--sigma0");
  if (!(value > 0)) throw usage_error("--sigma0 must be positive, found {}", text);
  return {value};
}

// Each name under each sigma_0. With several values preconditioning, a change of schedule itself,
// takes the place of another; a single one beside another is a contradiction.
std::vector<SolverName> preconditioned(const std::vector<std::string>& texts,
                                       const std::vector<double>& sigma_0s, bool contradiction) {
  std::vector<SolverName> names;
  for (const auto& text : texts) {
    const SolverName name = SolverName::parse(text);
    for (const double sigma_0 : sigma_0s) {
      names.push_back(name);
      if (sigma_0 == 1 || name.is_file()) continue;
      if (contradiction && sigma_0s.size() == 1 && !name.schedule.empty()) {
        throw usage_error("{} and --sigma0 are two changes of schedule; give one of them", text);
      }
      names.back().schedule = fmt::format("sigma0={}", sigma_0);
    }
  }
  return names;
}

NamedSolver start_of(const SolverName& name, int nfe, const FieldDescription& field) {
  if (!name.is_file()) return {to_string(name), resolve_solver(name, nfe, field).solver};
  const NsSolver solver = resolve_solver(name, 0, field).solver;
  if (solver.nfe() > nfe) {
    throw usage_error("{} spends {} evaluations, more than --nfe {}", name.file, solver.nfe(), nfe);
  }
  return {name.file, pad(solver, nfe)};
}

// Those that --init and --sigma0 name: none where they are left to the library.
std::vector<NamedSolver> named_starts(const DistillCommandOptions& options, const Family& family,
                                      const FieldDescription& field) {
  const auto sigma_0s = sigma_0_values(options.sigma_0);
  const bool automatic = options.init == kAuto;
  if (automatic && sigma_0s == std::vector<double>{1}) return {};
  const auto texts =
      automatic ? plain_starts(family, *field.schedule) : split_solver_names(options.init);
  std::vector<NamedSolver> starts;
  for (const auto& name : preconditioned(texts, sigma_0s, !automatic)) {
    starts.push_back(start_of(name, family.nfe(), field));
    family.parameters(starts.back().solver);  // refuses what is not in the family
  }
  return starts;
}

Memory memory_of(const DistillCommandOptions& options, const OpenModel& open) {
  if (options.memory == "low") return Memory::low;
  if (options.memory == "high") return Memory::high;
  if (options.memory == kAuto) return open.device.is_cuda() ? Memory::high : Memory::low;
  throw Error(ErrorKind::usage, unknown_name("memory", options.memory, {"auto", "low", "high"}));
}

}  // namespace

ModelDistillOptions distill_options(const DistillCommandOptions& options, const OpenModel& open,
                                    int nfe, bool decoded) {
  ModelDistillOptions result;
  result.nfe = nfe;
  result.family = make_family(options.family, nfe);
  result.field = open.field();
  result.starts = named_starts(options, *result.family, result.field);
  result.method = parse_method(options.method);
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
  result.direct = parse_direct(options.direct);
  if (options.batch > 0) {
    result.direct.batch = result.lm.batch = result.adam.batch = options.batch;
  }
  result.peak = value_peak(open, decoded);
  result.device = open.device;
  result.objective.device_batch = options.model.batch;
  result.objective.memory = memory_of(options, open);
  if (decoded) {
    result.objective.decode = [&open](const torch::Tensor& x) { return open.decoder->decode(x); };
  }
  return result;
}

}  // namespace bespoke
