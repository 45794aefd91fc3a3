#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bespoke {

// The error an adaptive run may make in one step, as error / (atol + rtol |x|).
struct Tolerances {
  double rtol = 1e-5;
  double atol = 1e-5;
};

// A sum of arrays with a coefficient per sample: sum_i coefficients[i][k] * terms[i] for the k-th
// active sample. Term 0 is the state the step starts from, term 1 + j the slope of stage j.
struct Combination {
  std::vector<size_t> terms;
  std::vector<std::vector<double>> coefficients;
};

struct DormandPrinceOptions {
  Tolerances tolerances;
  double start = 0, end = 1;
  int64_t most_evaluations = 20000;  // per sample, before it is called diverged
  int64_t first_sample = 0;          // what errors call the first sample
  // Told the number of a sample that cannot go on, and why; it has then arrived. Where there is
  // none, such a sample ends the run.
  std::function<void(int64_t sample, const std::string& why)> on_given_up = {};
};

// The adaptive Runge-Kutta method of Dormand and Prince, 5(4), for many samples at once, each with
// steps and error control of its own. It holds every number of the run and no array: its caller
// keeps the states, adds them up and calls the field u, with whatever array library.
//
//   DormandPrince run(count, options);
//   slope[0] = u(run.times(), x);
//   run.guess(norms(x), norms(slope[0]));
//   run.begin(norms(u(run.guess_times(), combine(run.guess_state())) - slope[0]));
//   while (!run.done()) {
//     for (stage = 1; stage < kStages; ++stage) {
//       y = combine(run.stage_state(stage));
//       slope[stage] = u(run.stage_times(stage), y);
//     }
//     accepted = run.decide(norms(combine(run.error())));
//     x, slope[0] = y, slope[6] where accepted;
//     keep the x of run.arrived() as results;
//     x, slope[0] = rows run.retire() of x, slope[0];
//   }
//
// All vectors have one entry per active sample, in the order of active(). The norm of an array is
// per sample the root mean square of its values divided by atol + rtol max(|x|, |y|), with y = x
// before the first step. No sample's numbers depend on another's.
class DormandPrince {
 public:
  using Values = std::vector<double>;
  using Positions = std::vector<int64_t>;
  static constexpr size_t kStages = 7;

  // Throws (usage) on tolerances that are not positive or an end before the start.
  DormandPrince(int64_t count, const DormandPrinceOptions& options);

  const Positions& active() const { return active_; }  // numbers of the samples still on their way
  bool done() const { return active_.empty(); }
  // Makes these the active samples, by their numbers, in this order. Others stay as they are, for
  // callers that compute a few at a time: they can begin in one batch and move on in another.
  void focus(Positions samples) { active_ = std::move(samples); }
  Values times() const;                      // where the samples are
  Values step_sizes() const;                 // how far the next attempt goes
  std::vector<int64_t> evaluations() const;  // what each sample of the whole batch has spent
  double progress() const;                   // fraction of all samples' time done, 0 ... 1

  // The starting step of Hairer, Norsett and Wanner: first a guess from the norms of x and u, then
  // the step from the norm of how much u changes over the guess.
  void guess(const Values& state_norms, const Values& slope_norms);
  Values guess_times() const;
  Combination guess_state() const;
  void begin(const Values& change_norms);

  // Describes one attempted step. The state of the last stage is the new state, and the slope there
  // the first of the next step.
  Values stage_times(size_t stage) const;
  Combination stage_state(size_t stage) const;
  Combination error() const;
  Combination middle() const;  // the state halfway, of fourth order: see dense_weights

  // Ends the attempt: which samples' steps are accepted. Sets the next step of each. A sample whose
  // steps shrink to nothing or whose evaluations run out is given up: throws (diverged) unless
  // options.on_given_up takes it.
  std::vector<bool> decide(const Values& error_norms);

  // Positions in active() of the samples at the end; and, removing those, of the ones that stay.
  Positions arrived() const;
  Positions retire();

 private:
  struct Sample {
    double time, step, slope_norm;
    double
        suited_step;  // with which the last accepted step would just have met the tolerance, or 0
    bool rejected;    // the last attempt failed: the next step must not grow
    int64_t evaluations;
  };

  Sample& sample(size_t k) { return samples_[static_cast<size_t>(active_[k])]; }
  const Sample& sample(size_t k) const { return samples_[static_cast<size_t>(active_[k])]; }
  template <class Value>
  Values of_each(Value value) const;
  Values scaled_steps(double factor) const;
  void add_slopes(Combination& sum, const double (&weights)[kStages]) const;
  Combination state_with(const double (&weights)[kStages]) const;
  void set_step(Sample& sample, double step) const;
  static double next_trend(Sample& sample, double error);
  void give_up_if_stuck(size_t k);
  void expect_one_each(const Values& values) const;

  DormandPrinceOptions options_;
  std::vector<Sample> samples_;  // of the whole batch
  Positions active_;
};

// The state within an accepted step, without a further evaluation: the quartic through x and u at
// both ends and DormandPrince::middle() between them. Weights of
//   { x, u at the step's beginning, x in its middle, x, u at its end }
// for the state at this fraction (0 ... 1) of a step of this size, and for its slope. At the ends
// they are exactly 1 and 0. The slope is of one order less.
struct DenseWeights {
  std::array<double, 5> state, slope;
};
DenseWeights dense_weights(double fraction, double step);

// The accepted step of a run that holds a time, and the weights of the five arrays there. `times`
// are where the steps meet; a time a rounding outside of them is their end.
struct DensePlace {
  size_t step;
  DenseWeights weights;
};
DensePlace dense_place(const std::vector<double>& times, double time);

}  // namespace bespoke
