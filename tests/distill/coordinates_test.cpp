// A model told in another schedule or prediction is the same problem: the same solver is found for
// the same calls, and what was found runs in the model's own coordinates as it was measured.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bespoke/distill/distill.h"
#include "bespoke/run/canonical_samples.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/translation.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

struct Told {
  SchedulePtr schedule;
  Prediction prediction = Prediction::velocity;
};

// A path from one log-SNR to another, or to the data.
SchedulePtr between(const std::string& name, double from, double to = INFINITY,
                    bool denoise = false) {
  const SchedulePtr whole = make_schedule(name);
  const double end = std::isinf(to) ? 1 : whole->time_at_lambda(to);
  return part_of(whole, whole->time_at_lambda(from), end, denoise);
}

// The same samples of the mixture whatever it is told in, as noise on the canonical path.
struct ToldProblem {
  std::shared_ptr<SampledField> field;
  bespoke::Array noise, x1;
  std::shared_ptr<const Trajectories> trajectories;

  ToldProblem(const Told& told, uint64_t seed) {
    constexpr int64_t kCount = 24;
    const PlainMixture mixture = testing::plain_mixture();
    field = plain_field(testing::mixture_function(mixture, told.schedule, told.prediction),
                        told.prediction, told.schedule);
    const ScaleTimePoint start = from_fm_ot(*told.schedule, 0);
    const testing::Array y = (1 - start.t) * testing::normal_array(seed, kCount, mixture.dimension);
    noise = bespoke::Array::of(PlainArray{(start.s * y).values, kCount});
    std::vector<int64_t> numbers(kCount);
    std::iota(numbers.begin(), numbers.end(), 0);
    ReferenceOptions options;
    options.tolerances = {1e-9, 1e-9};
    options.record = kCount;
    Reference drawn = draw_reference(field, plain_arrays(), noise, numbers, options);
    x1 = drawn.x;
    trajectories = std::make_shared<const Trajectories>(std::move(drawn.trajectories));
  }

  Samples canonical() const { return canonical_samples(field, noise, x1, trajectories); }
  Samples own() const { return {field, noise, x1, trajectories}; }

  using PlainMixture = testing::PlainMixture;
};

DistillOptions told_options(const Told& told, int nfe = 4) {
  DistillOptions options;
  options.nfe = nfe;
  options.field = {told.prediction, told.schedule, {}};
  options.iterations = 4;
  return options;
}

DistillSummary found_for(const Told& told, const DistillOptions& options) {
  return distill(ToldProblem(told, 1).canonical(), ToldProblem(told, 2).canonical(), options);
}

// On the model's own path, decibels of a solver told there.
double psnr_on_own_path(const Told& told, const NsSolver& solver) {
  const Samples samples = ToldProblem(told, 2).own();
  Counts counts;
  const auto errors = samples.log_errors(solver, first_samples(samples), &counts);
  const double loss = std::accumulate(errors.begin(), errors.end(), 0.0);
  return psnr_of_loss(loss / static_cast<double>(errors.size()), kUnitPeak);
}

double farthest_apart(const NsSolver& left, const NsSolver& right) {
  const auto a = coefficients_of(left), b = coefficients_of(right);
  EXPECT_EQ(a.size(), b.size());
  double difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = std::max(difference, std::abs(a[i] - b[i]));
  return difference;
}

void expect_the_same(const std::vector<Told>& all) {
  const DistillSummary first = found_for(all.front(), told_options(all.front()));
  const auto canonical = [](const Told& told, const NsSolver& solver) {
    const CoordinatesPtr coordinates = canonical_coordinates(told.schedule);
    return coordinates ? to_canonical(solver, *coordinates) : solver;
  };
  const NsSolver expected = canonical(all.front(), first.solver);
  EXPECT_GT(first.validation_psnr, 30);
  for (const Told& told : all) {
    SCOPED_TRACE(told.schedule->describe().dump() + " " + to_string(told.prediction));
    const DistillSummary found = found_for(told, told_options(told));
    EXPECT_LT(farthest_apart(canonical(told, found.solver), expected), 1e-6);
    EXPECT_NEAR(found.validation_psnr, first.validation_psnr, 1e-3);
    EXPECT_EQ(found.start, first.start);
    EXPECT_EQ(found.screening.forwards, first.screening.forwards);
    EXPECT_EQ(found.training.forwards, first.training.forwards);
    EXPECT_EQ(found.validation.forwards, first.validation.forwards);
  }
}

// Some noise is left out at the start, as in every schedule that does not reach zero SNR; tables
// have a kink at each level.
TEST(Coordinates, DoNotMatterOnPathsToTheData) {
  const double from = -std::log(80);
  std::vector<Told> all;
  for (const std::string name : {"fm-ot", "cosine", "vp", "edm", "ddpm-linear"}) {
    all.push_back({between(name, from)});
  }
  for (const auto prediction :
       {Prediction::noise, Prediction::data, Prediction::v, Prediction::edm}) {
    all.push_back({between("vp", from), prediction});
  }
  all.push_back({between("edm", from), Prediction::noise});
  expect_the_same(all);
}

TEST(Coordinates, DoNotMatterFromZeroSnr) {
  expect_the_same({{make_schedule("fm-ot")},
                   {make_schedule("cosine"), Prediction::v},
                   {make_schedule("ddpm-linear:zero_terminal_snr=1"), Prediction::v}});
}

TEST(Coordinates, DoNotMatterWhereAFinalStepDenoises) {
  std::vector<Told> all;
  for (const std::string name : {"fm-ot", "vp", "edm", "ddpm-linear"}) {
    all.push_back({between(name, -4, 3.2, true), Prediction::noise});
  }
  expect_the_same(all);
}

// Where a path ends before the data its samples are of another size on another path, and so are
// errors.
TEST(Coordinates, MatterByTheSizeOfSamplesWherePathsEndBeforeTheData) {
  const auto decibels = [](const std::string& name) {
    const Told told = {between(name, -4, 4)};
    DistillOptions options = told_options(told);
    options.method = Method::fit;
    const double size = straight_part(*told.schedule).scale;
    return found_for(told, options).validation_psnr + 20 * std::log10(size);
  };
  for (const std::string name : {"vp", "edm", "ve:sigma_max=80"}) {
    EXPECT_NEAR(decibels(name), decibels("fm-ot"), 1e-3) << name;
  }
}

TEST(Coordinates, SolversRunOnTheirOwnPathAsTheyWereMeasured) {
  for (const std::string name :
       {"vp", "edm", "ve", "ve-power", "cosine", "vp:start=0.1,end=0.98", "edm:end=0.999,denoise=1",
        "ddpm-linear", "ddpm-linear:zero_terminal_snr=1,end=0.99,denoise=1"}) {
    const Told told = {make_schedule(name)};
    const DistillSummary found = found_for(told, told_options(told));
    EXPECT_NEAR(psnr_on_own_path(told, found.solver), found.validation_psnr, 1e-3) << name;
  }
}

// What a solver is held to is so where it runs.
TEST(Coordinates, ConstraintsAreThoseOfTheModelsOwnPath) {
  for (const std::string name : {"vp", "ddpm-linear:start=0.05", "edm"}) {
    const Told told = {make_schedule(name), Prediction::noise};
    DistillOptions options = told_options(told);
    options.constraints.unit_start_scale = true;
    options.constraints.times = parse_time_rounding("integer");
    options.family = bns_family(options.nfe, options.constraints);
    const DistillSummary found = found_for(told, options);
    EXPECT_EQ(found.solver.start_scale, 1);
    for (const double t : found.solver.times) {
      EXPECT_NEAR(1000 * t, std::nearbyint(1000 * t), 1e-9) << name;
    }
    EXPECT_NEAR(psnr_on_own_path(told, found.solver), found.validation_psnr, 1e-3) << name;
    EXPECT_GT(found.validation_psnr, found.initial_psnr + 0.5) << name;
  }
}

// The noise that is taken as it is has the size it has at the first time.
TEST(Coordinates, AUnitStartScaleFollowsTheFirstTime) {
  const CoordinatesPtr coordinates = canonical_coordinates(vp_schedule());
  BnsConstraints constraints;
  constraints.unit_start_scale = true;
  const FamilyPtr family = bns_family(3, constraints)->told_in(coordinates);
  const NsSolver start = to_canonical(
      make_solver("dpm++2m", {3, vp_schedule(), "lambda-range:from=-3,to=3"}), *coordinates);
  const std::vector<double> theta = family->parameters(start);
  const Matrix jacobian = family->jacobian(theta);
  constexpr double kStep = 1e-6;
  for (size_t j = 0; j < theta.size(); ++j) {
    auto ahead = theta, behind = theta;
    ahead[j] += kStep;
    behind[j] -= kStep;
    const auto right = coefficients_of(family->solver(ahead));
    const auto left = coefficients_of(family->solver(behind));
    for (size_t i = 0; i < right.size(); ++i) {
      EXPECT_NEAR(jacobian(i, j), (right[i] - left[i]) / (2 * kStep), 1e-7) << i << " " << j;
    }
  }
}

TEST(Coordinates, StartsAreToldInTheModelsOwn) {
  const Told told = {make_schedule("edm"), Prediction::noise};
  DistillOptions options = told_options(told, 6);
  options.iterations = 1;
  for (const std::string name :
       {"dpm++2m/lambda-range:from=-3,to=3", "ab2/lambda-range:from=-3,to=3@cosine"}) {
    const NsSolver start = resolve_solver(SolverName::parse(name), 6, options.field).at();
    options.starts = {{name, start}};
    EXPECT_NEAR(found_for(told, options).initial_psnr, psnr_on_own_path(told, start), 1e-6) << name;
  }
}

TEST(Coordinates, TranslateThereAndBack) {
  for (const std::string name : {"vp", "edm", "cosine", "ddpm-linear:end=0.97,denoise=1"}) {
    const SchedulePtr schedule = make_schedule(name);
    const CoordinatesPtr coordinates = canonical_coordinates(schedule);
    const NsSolver solver = make_solver("dpm++2m", {8, schedule, "lambda-range:from=-4,to=3"});
    const NsSolver back = to_own(to_canonical(solver, *coordinates), *coordinates);
    EXPECT_LT(farthest_apart(back, solver), 1e-8) << name;
  }
  EXPECT_EQ(canonical_coordinates(fm_ot_schedule()), nullptr);
}

}  // namespace
}  // namespace bespoke
