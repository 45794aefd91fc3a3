// What the core finds on a mixture in plain C++ arrays, as JSON: the Python package must find the
// same with arrays of its own.

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "bespoke/distill/distill.h"
#include "plain_problem.h"

namespace {

using namespace bespoke;
using namespace bespoke::testing;
using nlohmann::json;

constexpr size_t kTraining = 24, kHeldOut = 16;

json answer(const SchedulePtr& schedule, Method method, int nfe) {
  const PlainMixture mixture = plain_mixture();
  PlainSamplesOptions told;
  told.canonical = true;
  const Samples training = plain_samples(mixture, schedule, kTraining, 1, told);
  const Samples held_out = plain_samples(mixture, schedule, kHeldOut, 2, told);
  DistillOptions options;
  options.nfe = nfe;
  options.method = method;
  options.iterations = 2;
  options.field.schedule = schedule;
  const DistillSummary summary = distill(training, held_out, options);
  json result = {{"schedule", schedule->describe()},
                 {"method", to_string(method)},
                 {"iterations", summary.iterations},
                 {"start", summary.start},
                 {"psnr", summary.validation_psnr},
                 {"training_psnr", summary.training_psnr},
                 {"forwards", summary.screening.forwards + summary.training.forwards +
                                  summary.validation.forwards},
                 {"times", summary.solver.times},
                 {"a", summary.solver.a},
                 {"b", summary.solver.b},
                 {"start_scale", summary.solver.start_scale}};
  const bespoke::testing::Array noise = starting_noise(*schedule, kHeldOut, mixture.dimension, 2);
  result["samples"] = run(summary.solver, mixture_field(mixture, schedule), noise).values;
  result["truth"] = exact_flow(mixture, *schedule, noise, 0, 1).values;
  return result;
}

}  // namespace

int main() {
  const PlainMixture mixture = plain_mixture();
  json answers = json::array();
  for (const auto& schedule : {fm_ot_schedule(), cosine_schedule(), vp_schedule()}) {
    answers.push_back(answer(schedule, Method::fit, 5));
    answers.push_back(answer(schedule, Method::direct, 3));
  }
  std::cout << json{{"dimension", mixture.dimension},
                    {"means", mixture.means},
                    {"deviations", mixture.deviations},
                    {"training", kTraining},
                    {"held_out", kHeldOut},
                    {"answers", answers}};
}
