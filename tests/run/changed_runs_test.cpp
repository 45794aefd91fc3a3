// Runs with one number changed: what they are, and in how many batches they are asked for.

#include "bespoke/run/changed_runs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bespoke/solver/catalogue.h"
#include "plain_problem.h"

namespace bespoke {
namespace {

constexpr int64_t kSamples = 2;

// Every time, and every coefficient but those of the last step.
std::vector<Change> all_changes(int n, double size) {
  std::vector<Change> changes;
  for (int i = 0; i < n; ++i) changes.push_back({Change::What::time, i, 0, size});
  for (int i = 0; i + 1 < n; ++i) {
    for (int column = 0; column < i + 2; ++column) {
      changes.push_back({Change::What::coefficient, i, column, size});
    }
  }
  return changes;
}

// The rows of each batch that a field was asked about.
struct Watched {
  Watched() {
    const auto mixture = testing::plain_mixture();
    const auto exact = testing::mixture_function(mixture, fm_ot_schedule());
    field = plain_field([this, exact](const std::vector<double>& times, const PlainArray& x,
                                      const std::vector<int64_t>& samples) {
      batches.push_back(x.count);
      return exact(times, x, samples);
    });
    noise = Array::of(PlainArray{
        testing::starting_noise(*fm_ot_schedule(), kSamples, mixture.dimension).values, kSamples});
  }

  std::vector<int64_t> batches;
  std::shared_ptr<SampledField> field;
  Array noise;
};

NsSolver four_steps() {
  return make_solver("dpm++2m", {4, fm_ot_schedule(), "lambda-range:from=-2,to=3"});
}

SolverRun run_of(Watched& watched, const NsSolver& solver) {
  Counts counts;
  SolverRun run =
      run_solver(*watched.field, solver, watched.noise, {0, 1}, Keep::everything, 0, &counts);
  watched.batches.clear();
  return run;
}

TEST(ChangedRuns, AskInFewEvenBatches) {
  for (const int64_t most : {int64_t{1000}, int64_t{7}}) {
    Watched watched;
    const NsSolver solver = four_steps();
    const SolverRun run = run_of(watched, solver);
    const std::vector<Change> changes = all_changes(4, 0.01);
    Counts counts;
    columns_of_end(*watched.field, run, changes, most, &counts);
    int64_t rows = 0, batches = 0;
    for (int k = 0; k < 4; ++k) {
      int64_t seen = 0;
      for (const Change& change : changes) seen += change.first_evaluation() <= k ? kSamples : 0;
      rows += seen;
      const int64_t in_a_batch = most / kSamples * kSamples;
      batches += (seen + in_a_batch - 1) / in_a_batch;
    }
    EXPECT_EQ(counts.forwards, rows);
    EXPECT_EQ(static_cast<int64_t>(watched.batches.size()), batches) << most;
    for (const int64_t batch : watched.batches) EXPECT_LE(batch, most);
  }
}

// A column is the derivative of x_n in its number.
TEST(ChangedRuns, AreDerivatives) {
  Watched watched;
  const NsSolver solver = four_steps();
  const SolverRun run = run_of(watched, solver);
  const std::vector<Change> changes = all_changes(4, 1e-6);
  Counts counts;
  const PlainArray columns =
      columns_of_end(*watched.field, run, changes, 1000, &counts).as<PlainArray>();
  const size_t row = static_cast<size_t>(columns.sample_size()) * kSamples;
  for (size_t c = 0; c < changes.size(); ++c) {
    const auto end = [&](double by) {
      NsSolver moved = solver;
      const auto step = static_cast<size_t>(changes[c].step);
      if (changes[c].what == Change::What::time) {
        moved.times[step] += by;
      } else if (changes[c].column == 0) {
        moved.a[step] += by;
      } else {
        moved.b[step][static_cast<size_t>(changes[c].column) - 1] += by;
      }
      return run_of(watched, moved).end().as<PlainArray>().values;
    };
    const auto up = end(1e-5), down = end(-1e-5);
    for (size_t i = 0; i < row; ++i) {
      const double expected = (up[i] - down[i]) / 2e-5;
      EXPECT_NEAR(columns.values[c * row + i], expected, 1e-4 * (1 + std::abs(expected)))
          << c << " " << i;
    }
  }
}

}  // namespace
}  // namespace bespoke
