#include "bespoke/jobs/distill_job.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"
#include "bespoke/recipe/error_mask.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/named_solver.h"
#include "noted_file.h"
#include "parse_job.h"

namespace bespoke {

using namespace detail;

namespace {

// The fields of a job by their names: the only list of them, for writing and reading alike.
template <class Options, class Visit>
void each_direct_option(Options& direct, Visit visit) {
  visit("remembered", direct.remembered);
  visit("judges", direct.judges);
  visit("smoothing", direct.smoothing);
  visit("damping", direct.damping);
  visit("attempts", direct.attempts);
  visit("difference", direct.difference);
  visit("time_difference", direct.time_difference);
}

template <class Job, class Visit>
void each_field(Job& job, Visit visit) {
  visit("nfes", job.nfes);
  visit("network_calls", job.network_calls);
  visit("family", job.family);
  visit("unit_start_scale", job.unit_start_scale);
  visit("times", job.times);
  visit("of_decoded", job.of_decoded);
  visit("match", job.match);
  visit("match_weight", job.match_weight);
  visit("match_samples", job.match_samples);
  visit("match_groups", job.match_groups);
  visit("starts", job.starts);
  visit("method", job.method);
  visit("direct", job.direct);
  visit("iterations", job.iterations);
  visit("batch", job.batch);
  visit("most_calls", job.most_calls);
}

template <class Value>
nlohmann::json encoded(const Value& value) {
  return value;
}
nlohmann::json encoded(const TimeRounding& times) { return to_string(times); }
nlohmann::json encoded(Match match) { return to_string(match); }
nlohmann::json encoded(Method method) { return to_string(method); }
nlohmann::json encoded(const DirectOptions& direct) {
  nlohmann::json json;
  each_direct_option(direct, [&](const char* name, const auto& value) { json[name] = value; });
  return json;
}

template <class Value>
void decode(const nlohmann::json& json, const char* name, Value& value) {
  value = exact_value<Value>(json, name);
}
void decode(const nlohmann::json& json, const char*, TimeRounding& times) {
  times = parse_time_rounding(json.get<std::string>());
}
void decode(const nlohmann::json& json, const char*, Match& match) {
  match = parse_match(json.get<std::string>());
}
void decode(const nlohmann::json& json, const char*, Method& method) {
  method = parse_method(json.get<std::string>());
}
void decode(const nlohmann::json& json, const char*, DirectOptions& direct) {
  each_direct_option(direct,
                     [&](const char* name, auto& value) { decode(json.at(name), name, value); });
}

BnsConstraints constraints_of(const DistillJob& job) {
  BnsConstraints constraints;
  constraints.times = job.times;
  constraints.unit_start_scale = job.unit_start_scale;
  return constraints;
}

// What stands behind "PREFIX:" in a name; none where it begins otherwise.
std::optional<std::string> after_prefix(const std::string& name, const std::string& prefix) {
  if (name.rfind(prefix + ":", 0) != 0) return std::nullopt;
  return name.substr(prefix.size() + 1);
}

void check_family(const std::string& name) {
  if (after_prefix(name, "bns-history") || after_prefix(name, "times")) return;
  static const std::vector<std::string> families = {"bns", "bst", "bst-rk1", "bst-rk2"};
  if (std::find(families.begin(), families.end(), name) != families.end()) return;
  throw Error(ErrorKind::usage,
              unknown_name("family", name,
                           {"bns", "bns-history:K", "times:METHOD", "bst", "bst-rk1", "bst-rk2"}));
}

// The last of them is taken for the most.
void check_evaluations(const DistillJob& job) {
  if (job.nfes.empty()) throw usage_error("--nfe is empty; give at least one, such as 8");
  if (!std::is_sorted(job.nfes.begin(), job.nfes.end(), std::less_equal<int>())) {
    throw usage_error("--nfe must rise, found {}", fmt::join(job.nfes, ", "));
  }
  for (const int nfe : job.nfes) {
    const bool is_open = nfe == 0 && job.network_calls > 0;
    if (!is_open) check_nfe(nfe);
  }
}

// Whether a start scale and times can be held.
bool takes_constraints(const std::string& family) {
  return family == "bns" || after_prefix(family, "bns-history");
}

FamilyPtr make_family(const DistillJob& job, int nfe, const SchedulePtr& schedule) {
  const std::string& name = job.family;
  if (name == "bns") return bns_family(nfe, constraints_of(job));
  if (const auto history = after_prefix(name, "bns-history")) {
    return history_family(static_cast<int>(parse_integer(*history, "--family bns-history")), nfe,
                          constraints_of(job));
  }
  if (const auto method = after_prefix(name, "times")) return times_family(*method, nfe, schedule);
  if (name == "bst-rk1") return bst_family(ScaleTimeBase::rk1, nfe);
  return bst_family(ScaleTimeBase::rk2, nfe);
}

// Of a file: its solver of as many evaluations, or of the most below, padded.
NamedSolver start_of(const SolverName& name, int nfe, const FieldDescription& field,
                     const Execution& execution) {
  if (!name.is_file()) return {to_string(name), resolve_solver(name, nfe, field).at()};
  const SolverFile file = read_noted(name.file, field, execution);
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

// None where they are left to the library.
std::vector<NamedSolver> named_starts(const DistillJob& job, const Family& family,
                                      const FieldDescription& field, const Execution& execution) {
  std::vector<NamedSolver> starts;
  for (const auto& text : job.starts) {
    starts.push_back(start_of(SolverName::parse(text), family.nfe(), field, execution));
    family.parameters(starts.back().solver);  // refuses what is not in the family
  }
  return starts;
}

// A solver with built-in guidance: what it is made of is found by the library.
void set_network_calls(const DistillJob& job, const OpenModel& open, ModelDistillOptions& result) {
  if (open.card.clip) {
    throw usage_error(
        "--network-calls makes a solver with built-in guidance, and {} clips what is guided "
        "(\"clip\" "
        "in its card); leave it out",
        open.name);
  }
  if (open.guidance.is_zero() || open.guidance.range) {
    throw usage_error(
        "--network-calls counts conditional and unconditional calls, so it needs one guidance "
        "weight, --guidance W; found {}",
        to_string(open.guidance));
  }
  result.network_calls = job.network_calls;
  result.constraints = constraints_of(job);
}

int64_t matched_samples(const DistillJob& job, const MatchedFeatures& features) {
  if (job.match_samples > 0) return job.match_samples;
  const int64_t usual = usual_match_samples(features.dimension);
  if (job.most_calls == 0) return usual;
  return std::clamp(match_samples_within(job.most_calls), features.dimension + 1, usual);
}

void check_groups(const DistillJob& job, const OpenModel& open) {
  const auto& conditions = open.card.conditions;
  const bool known = std::any_of(conditions.begin(), conditions.end(), [&](const auto& condition) {
    return condition.name == job.match_groups && condition.classes > 0;
  });
  if (!job.match_groups.empty() && !known) {
    throw usage_error("--match-groups names a condition of classes, and {} has no such {}",
                      open.name, job.match_groups);
  }
}

// Features of samples as errors are of, which a latent model's are not decoded for: these are
// decoded first.
MatchOptions match_options(const DistillJob& job, const OpenModel& open,
                           const std::shared_ptr<const FeatureExtractor>& features) {
  MatchOptions result;
  result.match = job.match;
  result.weight = job.match_weight;
  const bool is_asked_for = job.match == Match::both || job.match == Match::distribution;
  if (!features && !is_asked_for) return result;
  TensorFeatures of_seen = plain_tensor_features;
  if (features) of_seen = [features](const torch::Tensor& x) { return (*features)(x); };
  const bool decodes = open.decoder && !job.of_decoded;
  result.features = sample_features([&open, of_seen, decodes](const torch::Tensor& x) {
    return of_seen(decodes ? open.decoder->decode(x) : x);
  });
  return result;
}

}  // namespace

nlohmann::json to_json(const DistillJob& job) {
  nlohmann::json json;
  each_field(job, [&](const char* name, const auto& value) { json[name] = encoded(value); });
  return json;
}

DistillJob parse_distill_job(const nlohmann::json& json, const std::string& source) {
  return parse_job<DistillJob>(
      json, source, [](auto& job, auto visit) { each_field(job, visit); },
      [](const nlohmann::json& value, const char* name, auto& field) {
        decode(value, name, field);
      });
}

void DistillJob::validate() const {
  check_family(family);
  check_evaluations(*this);
  if (network_calls > 0 && nfes.size() != 1) {
    throw usage_error("--network-calls takes one --nfe at most, found {}", nfes.size());
  }
  if (network_calls > 0 && family != "bns") {
    throw usage_error("--network-calls is for bns solvers; leave out --family {}", family);
  }
  if (network_calls > 0 && !starts.empty()) {
    throw usage_error("--network-calls starts from the fit; leave out --init");
  }
  if (!takes_constraints(family) && (unit_start_scale || !times.is_free())) {
    throw usage_error("--start-scale and --times are for bns solvers; leave them or --family out");
  }
}

bool matches_statistics(const DistillJob& job, bool has_features) {
  DistillOptions options;
  options.network_calls = job.network_calls;
  options.match.match = job.match;
  if (has_features) options.match.features = sample_features(plain_tensor_features);
  return std::any_of(job.nfes.begin(), job.nfes.end(), [&](int nfe) {
    options.nfe = nfe;
    return options.matches_statistics();
  });
}

ModelDistillOptions distill_options(const DistillJob& job, const OpenModel& open,
                                    const MatchedFeatures& features, int nfe,
                                    const Execution& execution) {
  check_groups(job, open);
  ModelDistillOptions result;
  result.nfe = nfe;
  result.field = open.field();
  if (job.network_calls > 0) {
    set_network_calls(job, open, result);
  } else {
    result.family = make_family(job, nfe, result.field.schedule);
    result.starts = named_starts(job, *result.family, result.field, execution);
  }
  result.method = job.method;
  result.iterations = job.iterations;
  result.most_calls = job.most_calls;
  result.match = match_options(job, open, features.extractor);
  result.match_samples = matched_samples(job, features);
  result.match_groups = job.match_groups;
  result.direct = job.direct;
  if (job.batch > 0) result.direct.batch = result.adam.batch = job.batch;
  result.peak = value_peak(open, job.of_decoded);
  result.device = execution.device;
  result.team = execution.team;
  result.samples.device_batch = execution.batch;
  if (job.of_decoded) {
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
