#include "bespoke/jobs/compare_job.h"

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/jobs/real_data.h"
#include "bespoke/solver/catalogue.h"
#include "parse_job.h"

namespace bespoke {

using namespace detail;

namespace {

// The fields of a job by their names: the only list of them, for writing and reading alike.
template <class Job, class Visit>
void each_field_of_comparison(Job& job, Visit visit) {
  visit("solvers", job.solvers);
  visit("nfes", job.nfes);
  visit("conditions", job.samples.conditions);
  visit("count", job.samples.count);
  visit("seed", job.samples.seed);
  visit("seeds", job.samples.seeds);
  visit("noise", job.samples.noise);
  visit("tolerance", job.tolerance);
  visit("of_decoded", job.of_decoded);
  visit("features", job.features.file);
  visit("features_range", job.features.range);
  visit("features_size", job.features.size);
  visit("real", job.real);
  visit("judges", job.judges);
  visit("equal_up_to", job.equal_up_to);
}

}  // namespace

nlohmann::json to_json(const CompareJob& job) {
  nlohmann::json json;
  each_field_of_comparison(job, [&](const char* name, const auto& value) { json[name] = value; });
  return json;
}

CompareJob parse_compare_job(const nlohmann::json& json, const std::string& source) {
  return parse_job<CompareJob>(
      json, source, [](auto& job, auto visit) { each_field_of_comparison(job, visit); },
      [](const nlohmann::json& value, const char* name, auto& field) {
        field = exact_value<std::decay_t<decltype(field)>>(value, name);
      });
}

void CompareJob::validate() const {
  if (solvers.empty()) throw usage_error("--solvers is empty; give at least one, such as midpoint");
  if (nfes.empty()) throw usage_error("--nfe is empty; give at least one, such as 8");
  for (const int nfe : nfes) check_nfe(nfe);
  if (equal_up_to < 0 || equal_up_to > kMostEvaluations) {
    throw usage_error("--equal-up-to must be 0 to {}, found {}", kMostEvaluations, equal_up_to);
  }
  features.validate();
  if (real.empty()) return;
  if (features.file.empty()) {
    throw usage_error("--real goes with --features, which the distance to real data is taken in");
  }
  check_real(real);
}

}  // namespace bespoke
