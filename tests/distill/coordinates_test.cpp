// A model told in another schedule or prediction is the same problem: the same solver is found for
// the same calls, and what was found runs in the model's own coordinates as it was measured.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bespoke/distill/distill.h"
#include "bespoke/path/network_input.h"
#include "bespoke/run/canonical_samples.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/translation.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

struct Told {
  SchedulePtr schedule;
  Prediction prediction = Prediction::velocity;
  // Where `whole` is given: how a network that was trained on it counts time.
  TimeCard time = {};
  SchedulePtr whole = nullptr;
};

// A path from one log-SNR to another, or to the data.
SchedulePtr between(const std::string& name, double from, double to = INFINITY,
                    bool denoise = false) {
  const SchedulePtr whole = make_schedule(name);
  const double end = std::isinf(to) ? 1 : whole->time_at_lambda(to);
  return part_of(whole, whole->time_at_lambda(from), end, denoise);
}

// The log-SNR that a network understands by its own time on the path it was trained on.
double understood(const TimeCard& card, const Schedule& whole, double time) {
  const double value = time / card.scale;
  switch (card.convention) {
    case TimeConvention::data_to_noise:
      return whole.lambda(1 - value);
    case TimeConvention::index:
      return whole.lambda(1 - (value + 1) / static_cast<double>(card.levels));
    case TimeConvention::sigma:
      return -std::log(value);
    case TimeConvention::log_sigma:
      return -4 * value;
    default:
      return whole.lambda(value);
  }
}

// A network of the mixture that knows its own time alone.
PlainFunction network_of(const testing::PlainMixture& mixture, const Told& told) {
  const auto on_the_whole = testing::mixture_function(mixture, told.whole, told.prediction);
  return [=](std::vector<double> times, const PlainArray& x, const std::vector<int64_t>& rows) {
    for (double& t : times) {
      const double asked = network_time_value(told.time, *told.schedule, t);
      t = told.whole->time_at_lambda(understood(told.time, *told.whole, asked));
    }
    return on_the_whole(times, x, rows);
  };
}

// The same samples of the mixture whatever it is told in, as noise on the canonical path.
struct ToldProblem {
  std::shared_ptr<SampledField> field;
  bespoke::Array noise, x1;
  std::shared_ptr<const Trajectories> trajectories;

  ToldProblem(const Told& told, uint64_t seed) {
    constexpr int64_t kCount = 24;
    const PlainMixture mixture = testing::plain_mixture();
    const PlainFunction function =
        told.whole ? network_of(mixture, told)
                   : testing::mixture_function(mixture, told.schedule, told.prediction);
    field = plain_field(function, told.prediction, told.schedule);
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
    EXPECT_NEAR(psnr_on_own_path(told, found.solver), found.validation_psnr, 1e-3);
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

// Few levels far apart, and levels that nearly coincide before a jump.
TEST(Coordinates, DoNotMatterWhereLevelsJump) {
  constexpr double kFrom = -2.5, kTo = 2.6;
  const auto table = [](const std::vector<double>& alphas_cumprod) {
    const SchedulePtr whole = table_schedule(alphas_cumprod);
    return part_of(whole, whole->time_at_lambda(kFrom), whole->time_at_lambda(kTo), true);
  };
  expect_the_same(
      {{between("fm-ot", kFrom, kTo, true)},
       {table({0.996, 0.4, 0.005}), Prediction::noise},
       {table({0.999, 0.998, 0.9979, 0.2, 0.1999, 0.01, 1e-4}), Prediction::data},
       {table({0.9999, 0.9, 0.89, 0.5, 0.02, 0.002, 0}), Prediction::v},
       {between("ddpm-quadratic:steps=20,beta_start=1e-4,beta_end=0.9", kFrom, kTo, true),
        Prediction::noise}});
}

// As where twenty levels end at alpha_bar = 0.6: samplers start from unit noise all the same.
TEST(Coordinates, DoNotMatterOnPathsThatBeginWithSignal) {
  const SchedulePtr levels = make_schedule("ddpm-linear:steps=20,beta_end=0.05");
  ASSERT_NEAR(std::pow(levels->alpha(0), 2), 0.6, 0.01);
  std::vector<Told> all = {{levels, Prediction::noise}};
  for (const std::string name : {"cosine", "vp", "fm-ot"}) {
    all.push_back({between(name, levels->lambda(0)), Prediction::data});
  }
  expect_the_same(all);
}

TEST(Coordinates, DoNotMatterHoweverNetworksCountTime) {
  const SchedulePtr levels = make_schedule("ddpm-linear:steps=100,beta_end=0.1");
  const SchedulePtr vp = vp_schedule();
  const double from = -2.4, to = 4;  // within the levels
  const auto inside = [&](const SchedulePtr& whole) {
    return part_of(whole, whole->time_at_lambda(from), whole->time_at_lambda(to), true);
  };
  std::vector<Told> all;
  for (const TimeCard& time :
       {TimeCard{TimeConvention::index, 1, 100}, TimeCard{TimeConvention::data_to_noise, 1000},
        TimeCard{TimeConvention::sigma}, TimeCard{TimeConvention::log_sigma}}) {
    all.push_back({inside(levels), Prediction::noise, time, levels});
  }
  for (const TimeCard& time : {TimeCard{}, TimeCard{TimeConvention::data_to_noise},
                               TimeCard{TimeConvention::log_sigma, 1000}}) {
    all.push_back({inside(vp), Prediction::data, time, vp});
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
  for (const std::string name : {"vp", "ddpm-linear:start=0.0504,end=0.98", "edm"}) {
    const Told told = {make_schedule(name), Prediction::noise};
    DistillOptions options = told_options(told);
    options.constraints.unit_start_scale = true;
    options.constraints.times = parse_time_rounding("integer");
    options.family = bns_family(options.nfe, options.constraints);
    const DistillSummary found = found_for(told, options);
    EXPECT_EQ(found.solver.start_scale, 1);
    for (const double t : found.solver.times) {
      if (t == 1) continue;  // nothing is asked there
      const double trained = told.schedule->trained_time(t).value;
      EXPECT_NEAR(1000 * trained, std::nearbyint(1000 * trained), 1e-9) << name;
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
  const FamilyPtr family = bns_family(3, constraints)->in_coordinates(coordinates);
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
