#include "options/distill_options.h"
#include "options/condition_options.h"

#include <algorithm>
#include <optional>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/distill/starts.h"
#include "bespoke/recipe/error_mask.h"
#include "bespoke/solver/named_solver.h"
#include "options/number_checks.h"
#include "options/solver_options.h"
#include "options/space_options.h"

namespace bespoke {

using namespace detail;

namespace {

BnsConstraints parse_constraints(const DistillCommandOptions& options) {
  BnsConstraints constraints;
  constraints.times = parse_time_rounding(options.times);
  constraints.unit_start_scale = options.start_scale == "1";
  if (!constraints.unit_start_scale && options.start_scale != "free") {
    throw usage_error("--start-scale is free or 1, found '{}'", options.start_scale);
  }
  return constraints;
}

// What stands behind "PREFIX:" in a name; none where it begins otherwise.
std::optional<std::string> after_prefix(const std::string& name, const std::string& prefix) {
  if (name.rfind(prefix + ":", 0) != 0) return std::nullopt;
  return name.substr(prefix.size() + 1);
}

FamilyPtr make_family(const DistillCommandOptions& options, int nfe, const SchedulePtr& schedule) {
  const std::string& name = options.family;
  const BnsConstraints constraints = parse_constraints(options);
  if (name == "bns") return bns_family(nfe, constraints);
  if (const auto history = after_prefix(name, "bns-history")) {
    return history_family(static_cast<int>(parse_integer(*history, "--family bns-history")), nfe,
                          constraints);
  }
  if (constraints.unit_start_scale || !constraints.times.is_free()) {
    throw usage_error("--start-scale and --times are for bns solvers; leave them or --family out");
  }
  if (const auto method = after_prefix(name, "times")) return times_family(*method, nfe, schedule);
  if (name == "bst-rk1") return bst_family(ScaleTimeBase::rk1, nfe);
  if (name == "bst" || name == "bst-rk2") return bst_family(ScaleTimeBase::rk2, nfe);
  throw Error(ErrorKind::usage,
              unknown_name("family", name,
                           {"bns", "bns-history:K", "times:METHOD", "bst", "bst-rk1", "bst-rk2"}));
}

}  // namespace

void DistillCommandOptions::add_to(CLI::App& command) {
  add_condition_options(command, conditions,
                        "conditions of the pairs, where they are made now: as for 'bespoke pairs'");
  command.add_option("--pairs", pairs,
                     "folder made by 'bespoke pairs'; default: made now, in memory, for adam in "
                     "the run's folder");
  command
      .add_option("--samples", samples,
                  "samples of the model to learn from, where they are made now in memory; default "
                  "96, or as many as --calls pays for")
      ->check(positive_number());
  command.add_option("--tolerance", tolerance,
                     "of the reference, where pairs are made now; default 1e-5 up to 12 NFE, 3e-6 "
                     "beyond and for adam");
  command.add_option("--nfe", nfe,
                     "evaluations, one or a list such as 4-20+2; default 8, or with "
                     "--network-calls as many as does best");
  command
      .add_option("--network-calls", network_calls,
                  "with --guidance W: a solver that guides itself, of so many network calls a "
                  "sample; its late steps make no unconditional call")
      ->check(positive_number());
  command
      .add_option("--family", family,
                  "bns (every Non-Stationary solver), bns-history:K (steps made of the last K "
                  "states and velocities), times:METHOD (the times of a method of the catalogue), "
                  "bst or bst-rk2, bst-rk1 (scale-time)")
      ->capture_default_str();
  command
      .add_option(
          "--init", init,
          fmt::format("solvers to start from, comma-separated, each {}; auto: the best fit to the "
                      "model's trajectories; of several, the best after one measurement goes on",
                      kSolverNames))
      ->capture_default_str();
  command
      .add_option(
          "--method", method,
          "auto (fit, then direct until it is not worth its calls), fit (in closed form from "
          "trajectories), direct (Gauss-Newton by differences, so many iterations) or adam "
          "(the published recipe; needs gradients)")
      ->capture_default_str();
  command
      .add_option("--start-scale", start_scale,
                  "free, or 1 for pipelines that take the noise as it is")
      ->capture_default_str();
  command
      .add_option("--times", times,
                  "free, or as whoever runs the solver rounds them: integer, integer:LEVELS, bf16")
      ->capture_default_str();
  command.add_option(
      "--direct", direct,
      "settings of auto and direct, KEY=VALUE,...: judges, remembered, "
      "smoothing, damping, attempts, difference, time_difference (docs/distillation.md)");
  command.add_option("--adam-decay", adam_decay, "polynomial (rate 5e-4) or cosine (rate 1e-4)")
      ->capture_default_str();
  command
      .add_option("--sigma0", sigma_0,
                  "sigma_0 preconditioning of the start, a number or auto, which tries a few")
      ->capture_default_str();
  command
      .add_option("--iterations", iterations,
                  "at most; default 24 (auto, which mostly ends by itself before), 6 (direct) or "
                  "15000 (adam)")
      ->check(positive_number());
  command
      .add_option("--train-batch", batch,
                  "samples of one iteration; default 4, more where they are small and after an "
                  "iteration that gained nothing, or 40 (adam)")
      ->check(positive_number());
  command
      .add_option("--calls", most_forwards,
                  "calls of the model to spend on each solver at most, counted per sample and all "
                  "in: its own samples, fits, training and measurements; default any")
      ->check(positive_number());
  command.add_option("--max-pairs", most_pairs, "use only the first training pairs")
      ->check(positive_number());
  command
      .add_option("--match", match,
                  "what solvers are to have in common with the model's samples: samples (each "
                  "sample), both (and the mean and covariance of --features, or of plain numbers "
                  "of a sample), distribution (hardly anything but these), auto (both up to 4 NFE "
                  "where --features are given, otherwise samples)")
      ->capture_default_str();
  features.add_to(command, "what --match takes the statistics of");
  command
      .add_option("--match-samples", match_samples,
                  "whose statistics are matched, made for it where there is no --pairs; default "
                  "768, or twice as many as features, or as many as --calls pays for")
      ->check(positive_number());
  command
      .add_option(
          "--match-weight", match_weight,
          "of the mean log error of samples beside the statistics, in parts of the distance "
          "at the start; default 0.1 for both and 0.01 for distribution, and 0.3 of that up "
          "to 2 NFE")
      ->check(CLI::PositiveNumber);
  command.add_option(
      "--match-groups", match_groups,
      "condition, such as y, whose classes have their statistics matched each apart; "
      "default: those of all samples together");
  command.add_option("--seed", seed, "of adam's batches")->capture_default_str();
  command.add_flag("--resume", resume, "go on with the run in the folder");
  model.add_to(command);
  model.add_utterances_to(command);
  add_space_option(command, space);
  command.add_option("-o,--output", output, "folder of the run and its solvers")->required();
}

std::string DistillCommandOptions::nfe_text() const {
  constexpr char kDefault[] = "8";
  return nfe.empty() && network_calls == 0 ? kDefault : nfe;
}

std::vector<int64_t> DistillCommandOptions::nfes() const {
  if (nfe_text().empty()) return {0};
  auto list = parse_integer_list(nfe_text(), "--nfe");
  for (const int64_t one : list) check_nfe(one);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  if (network_calls > 0 && list.size() > 1) {
    throw usage_error("--network-calls takes one --nfe at most, found {}", nfe);
  }
  return list;
}

bool DistillCommandOptions::makes_matching_samples() const {
  MatchOptions options;
  options.match = parse_match(match);
  if (!features.file.empty()) options.features = sample_features(plain_tensor_features);
  const auto list = nfes();
  const bool any = std::any_of(list.begin(), list.end(), [&](int64_t one) {
    return options.has_statistics(static_cast<int>(one));
  });
  return any && pairs.empty();
}

void DistillCommandOptions::check_numbers() const {
  features.check();
  if (parse_match(match) == Match::samples && !features.file.empty()) {
    throw usage_error("--match samples looks at no features; leave out --features");
  }
  if (!pairs.empty() && (!conditions.empty() || !model.utterances.empty())) {
    throw usage_error("--pairs brings its own conditions; leave out --cond and --utterances");
  }
  if (!pairs.empty() && tolerance) {
    throw usage_error("--pairs brings its own tolerance; leave out --tolerance");
  }
  if (pairs.empty() && method != to_string(Method::adam) && most_pairs > 0) {
    throw usage_error("--max-pairs goes with --pairs; give --samples instead");
  }
  if (most_forwards > 0 && tolerance) {
    throw usage_error(
        "--calls decides how its samples are drawn; leave out --tolerance, or make samples with "
        "'bespoke pairs' and give --pairs");
  }
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

// Of a file: its solver of as many evaluations, or of the most below, padded.
NamedSolver start_of(const SolverName& name, int nfe, const FieldDescription& field) {
  if (!name.is_file()) return {to_string(name), resolve_solver(name, nfe, field).at()};
  const SolverFile file = finished(name.file, field);
  const NsSolver* nearest = nullptr;
  for (const auto& filed : file.solvers) {
    if (filed.solver.nfe() <= nfe) nearest = &filed.solver;
  }
  if (nearest == nullptr) {
    throw usage_error("{} spends {} evaluations, more than --nfe {}", name.file,
                      file.nfes().front(), nfe);
  }
  return {name.file, pad(*nearest, nfe)};
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

}  // namespace

namespace {

// A solver that guides itself: what it is made of is found by the library.
void set_network_calls(const DistillCommandOptions& options, const GuidanceWeight& guidance,
                       ModelDistillOptions& result) {
  if (guidance.is_zero() || guidance.range) {
    throw usage_error(
        "--network-calls counts conditional and unconditional calls, so it needs one guidance "
        "weight, --guidance W; found {}",
        to_string(guidance));
  }
  if (options.family != "bns") {
    throw usage_error("--network-calls is for bns solvers; leave out --family {}", options.family);
  }
  if (options.init != kAuto || options.sigma_0 != "1") {
    throw usage_error("--network-calls starts from the fit; leave out --init and --sigma0");
  }
  result.network_calls = options.network_calls;
  result.constraints = parse_constraints(options);
}

}  // namespace

namespace {

int64_t matched_samples(const DistillCommandOptions& options,
                        const std::optional<OpenFeatures>& features) {
  if (options.match_samples > 0) return options.match_samples;
  const int64_t dimension = features ? features->dimension : 0;
  const int64_t usual = usual_match_samples(dimension);
  if (options.most_forwards == 0) return usual;
  return std::clamp(match_samples_within(options.most_forwards), dimension + 1, usual);
}

// Features of samples as errors are of, which a latent model's are not decoded for: these are
// decoded first.
MatchOptions match_options(const DistillCommandOptions& options, const OpenModel& open,
                           const std::optional<OpenFeatures>& features, bool decoded) {
  MatchOptions result;
  result.match = parse_match(options.match);
  result.weight = options.match_weight;
  const bool asked = result.match == Match::both || result.match == Match::distribution;
  if (!features && !asked) return result;
  TensorFeatures shown = plain_tensor_features;
  if (features) shown = [&](const torch::Tensor& x) { return (*features->extractor)(x); };
  const bool decodes = open.decoder && !decoded;
  result.features = sample_features([&open, shown, decodes](const torch::Tensor& x) {
    return shown(decodes ? open.decoder->decode(x) : x);
  });
  return result;
}

}  // namespace

ModelDistillOptions distill_options(const DistillCommandOptions& options, const OpenModel& open,
                                    const std::optional<OpenFeatures>& features, int nfe,
                                    bool decoded) {
  ModelDistillOptions result;
  result.nfe = nfe;
  result.field = open.field();
  if (options.network_calls > 0) {
    if (open.card.clip) {
      throw usage_error(
          "--network-calls makes a solver that guides itself, and {} clips what is guided "
          "(\"clip\" in "
          "its card); leave it out",
          open.name);
    }
    set_network_calls(options, open.guidance, result);
  } else {
    result.family = make_family(options, nfe, result.field.schedule);
    result.starts = named_starts(options, *result.family, result.field);
  }
  result.method = parse_method(options.method);
  result.iterations = options.iterations;
  result.most_forwards = options.most_forwards;
  result.seed = static_cast<uint64_t>(options.seed);
  result.match = match_options(options, open, features, decoded);
  result.match_samples = matched_samples(options, features);
  result.match_groups = options.match_groups;
  if (options.adam_decay == "cosine") {
    result.adam.decay = RateDecay::cosine;
    result.adam.rate = 1e-4;
  } else if (options.adam_decay != "polynomial") {
    throw Error(ErrorKind::usage,
                unknown_name("decay", options.adam_decay, {"polynomial", "cosine"}));
  }
  result.direct = parse_direct_options(options.direct);
  if (options.batch > 0) {
    result.direct.batch = result.adam.batch = options.batch;
  }
  result.peak = value_peak(open, decoded);
  result.device = open.device;
  result.samples.device_batch = options.model.batch;
  if (decoded) {
    if (!open.card.error_masks.empty()) {
      throw usage_error(
          "the card of {} says which numbers of its samples count (\"error_mask\"), not which of "
          "what they decode to; leave out --space decoded",
          open.name);
    }
    result.samples.decode = [&open](const torch::Tensor& x) { return open.decoder->decode(x); };
  }
  result.samples.mask = [&open](const Conditions& conditions) {
    return error_mask(open.card, conditions);
  };
  return result;
}

}  // namespace bespoke
