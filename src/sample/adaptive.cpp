#include "adaptive.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "bespoke/base/batches.h"
#include "bespoke/model/guidance.h"
#include "bespoke/solver/dormand_prince.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/transfer.h"

namespace bespoke {

using namespace detail;

namespace {

using Values = DormandPrince::Values;

// Collects the accepted steps of the first `count` samples, on the CPU. A row of x, slope or middle
// belongs to the sample whose number `samples` has there; samples are in rising order.
class StepRecorder {
 public:
  StepRecorder(int64_t count, torch::ScalarType type)
      : steps_(static_cast<size_t>(count)), type_(type) {}

  void add_ends(const std::vector<int64_t>& samples, const Values& times, const torch::Tensor& x,
                const torch::Tensor& slope) {
    for (size_t k = 0; k < kept(samples); ++k) of(samples[k]).times.push_back(times[k]);
    append(samples, x, &RecordedSteps::states);
    append(samples, slope, &RecordedSteps::slopes);
  }

  void add_middles(const std::vector<int64_t>& samples, const torch::Tensor& middle) {
    append(samples, middle, &RecordedSteps::middles);
  }

  // Puts one step of this state in place of all that was recorded of a sample.
  void forget(int64_t sample, const torch::Tensor& state, double start, double end) {
    if (sample >= static_cast<int64_t>(steps_.size())) return;
    const torch::Tensor copy = state.to(torch::kCPU, type_, false, true);
    of(sample) = {{start, end}, {copy, copy}, {copy, copy}, {copy}};
  }

  std::vector<RecordedSteps> take() { return std::move(steps_); }

 private:
  size_t kept(const std::vector<int64_t>& samples) const {
    const auto end =
        std::lower_bound(samples.begin(), samples.end(), static_cast<int64_t>(steps_.size()));
    return static_cast<size_t>(end - samples.begin());
  }

  RecordedSteps& of(int64_t sample) { return steps_[static_cast<size_t>(sample)]; }

  void append(const std::vector<int64_t>& samples, const torch::Tensor& rows,
              std::vector<torch::Tensor> RecordedSteps::*part) {
    const auto count = static_cast<int64_t>(kept(samples));
    const torch::Tensor copies = rows.slice(0, 0, count).to(torch::kCPU, type_, false, true);
    for (int64_t k = 0; k < count; ++k) {
      (of(samples[static_cast<size_t>(k)]).*part).push_back(copies[k]);
    }
  }

  std::vector<RecordedSteps> steps_;
  torch::ScalarType type_;
};

// Samples between two steps, a row each.
struct Rows {
  std::vector<int64_t> numbers = {};
  torch::Tensor x = {}, slope = {};
  Conditions conditions = {};

  int64_t count() const { return static_cast<int64_t>(numbers.size()); }

  Rows part(int64_t begin, int64_t end) const {
    return {{numbers.begin() + begin, numbers.begin() + end},
            x.slice(0, begin, end),
            slope.slice(0, begin, end),
            slice(conditions, begin, end)};
  }

  void append(const Rows& more) {
    if (count() == 0) {
      *this = more;
      return;
    }
    numbers.insert(numbers.end(), more.numbers.begin(), more.numbers.end());
    x = torch::cat({x, more.x});
    slope = torch::cat({slope, more.slope});
    for (auto& [name, values] : conditions) {
      values = torch::cat({values, more.conditions.at(name)});
    }
  }
};

// The arrays of a Dormand-Prince run. At most so many samples move at a time, the rows; as soon as
// one arrives, one that waits takes its place, so that the field sees full batches to the end. They
// begin, two evaluations each, a full batch at a time as well: those that have begun are ready.
class AdaptiveRun {
 public:
  AdaptiveRun(const Field& field, const StartStates& starts, const Conditions& conditions,
              const ReferenceOptions& options)
      : field_(field),
        starts_(starts),
        conditions_(conditions),
        options_(options),
        at_once_(options.batch > 0 ? options.batch : starts.count()),
        control_(starts.count(), {options.tolerances, options.start, options.end,
                                  options.most_evaluations, options.first_sample, giving_up()}),
        result_(torch::empty(starts.shape, torch::kDouble)),
        recorder_(std::min(options.record, starts.count()), starts.kept_type) {
    control_.focus({});
  }

  AdaptiveResult run() {
    for (refill(); !control_.done(); refill()) {
      attempt();
      retire();
      if (options_.on_progress) options_.on_progress(control_.progress());
    }
    forget_given_up();
    return {result_, torch::tensor(control_.evaluations(), torch::kLong), recorder_.take()};
  }

 private:
  bool records() const { return options_.record > 0; }

  std::function<void(int64_t, const std::string&)> giving_up() {
    if (!options_.on_given_up) return nullptr;
    return [this](int64_t number, const std::string& why) {
      given_up_.push_back(number - options_.first_sample);
      options_.on_given_up(number, why);
    };
  }

  void forget_given_up() {
    for (const int64_t sample : given_up_) {
      result_[sample].fill_(std::numeric_limits<double>::quiet_NaN());
      recorder_.forget(sample, result_[sample], options_.start, options_.end);
    }
  }

  // Does work(size), where memory runs out for half as many samples, and all after it with as many.
  template <class Work>
  int64_t with_room(int64_t size, Work work) {
    const int64_t done = within_memory(size, options_.on_less, [&](int64_t less) {
      work(less);
      return less;
    });
    if (done < size) at_once_ = done;
    return done;
  }

  void refill() {
    while (rows_.count() < at_once_ && (ready_.count() > 0 || next_ < starts_.count())) {
      if (ready_.count() == 0) begin_more();
      const int64_t room = std::max<int64_t>(0, at_once_ - rows_.count());
      const int64_t joining = std::min(room, ready_.count());
      rows_.append(ready_.part(0, joining));
      ready_ = ready_.part(joining, ready_.count());
    }
    control_.focus(rows_.numbers);
  }

  void begin_more() {
    next_ += with_room(std::min(at_once_, starts_.count() - next_), [&](int64_t size) {
      Rows fresh;
      fresh.numbers.resize(static_cast<size_t>(size));
      std::iota(fresh.numbers.begin(), fresh.numbers.end(), next_);
      fresh.x = starts_.states(next_, next_ + size);
      fresh.conditions = near(slice(conditions_, next_, next_ + size), fresh.x.device());
      control_.focus(fresh.numbers);
      begin(fresh);
      ready_ = std::move(fresh);
    });
    if (records()) {
      recorder_.add_ends(ready_.numbers, control_.times(), ready_.x, ready_.slope);
    }
  }

  void begin(Rows& fresh) {
    const auto size = [&](const std::vector<torch::Tensor>& terms,
                          const std::vector<Values>& coefficients) {
      return norms(terms, coefficients, fresh.x, fresh.x);
    };
    const Values ones(fresh.numbers.size(), 1.0), minus(fresh.numbers.size(), -1.0);
    fresh.slope = evaluate(fresh, fresh.x, control_.times());
    control_.guess(size({fresh.x}, {ones}), size({fresh.slope}, {ones}));
    const auto there = combined(control_.guess_state(), fresh, {fresh.slope});
    const auto slope = evaluate(fresh, there, control_.guess_times());
    control_.begin(size({slope, fresh.slope}, {ones, minus}));
  }

  torch::Tensor evaluate(const Rows& rows, const torch::Tensor& x, const Values& t) const {
    return field_.velocity(x, torch::tensor(t, torch::kDouble), rows.conditions)
        .to(torch::kDouble)
        .contiguous();
  }

  static std::vector<torch::Tensor> terms_of(const Combination& sum, const Rows& rows,
                                             const std::vector<torch::Tensor>& slopes) {
    std::vector<torch::Tensor> terms;
    for (const size_t term : sum.terms) terms.push_back(term == 0 ? rows.x : slopes[term - 1]);
    return terms;
  }

  static torch::Tensor combined(const Combination& sum, const Rows& rows,
                                const std::vector<torch::Tensor>& slopes) {
    torch::Tensor x = torch::empty_like(rows.x);
    combine_per_sample(x, terms_of(sum, rows, slopes), sum.coefficients);
    return x;
  }

  Values norms(const std::vector<torch::Tensor>& terms, const std::vector<Values>& coefficients,
               const torch::Tensor& x, const torch::Tensor& y) const {
    return scaled_norms(terms, coefficients, x, y, options_.tolerances.rtol,
                        options_.tolerances.atol);
  }

  // What an attempted step of every row comes to.
  struct Attempt {
    torch::Tensor y, slope, middle;
    Values errors;
  };

  Attempt stages() const {
    Attempt found;
    std::vector<torch::Tensor> slopes = {rows_.slope};
    for (size_t stage = 1; stage < DormandPrince::kStages; ++stage) {
      found.y = combined(control_.stage_state(stage), rows_, slopes);
      slopes.push_back(evaluate(rows_, found.y, control_.stage_times(stage)));
    }
    const Combination error = control_.error();
    found.errors = norms(terms_of(error, rows_, slopes), error.coefficients, rows_.x, found.y);
    found.slope = slopes.back();
    if (records()) found.middle = combined(control_.middle(), rows_, slopes);
    return found;
  }

  void attempt() {
    Attempt found;
    // Nothing is changed before all stages are there, so rows may be set aside and it tried again.
    with_room(rows_.count(), [&](int64_t size) {
      set_aside(size);
      found = stages();
    });
    const auto accepted = control_.decide(found.errors);
    const auto mask =
        per_sample(sent(as_mask(accepted), found.y.device(), torch::kBool), found.y.dim());
    rows_.x = torch::where(mask, found.y, rows_.x);
    rows_.slope = torch::where(mask, found.slope, rows_.slope);
    if (records()) record(accepted, found.middle);
  }

  // Leaves so many rows; the others are the first of those that are ready.
  void set_aside(int64_t staying) {
    if (staying >= rows_.count()) return;
    Rows waiting = rows_.part(staying, rows_.count());
    if (ready_.count() > 0) waiting.append(ready_);
    ready_ = std::move(waiting);
    rows_ = rows_.part(0, staying);
    control_.focus(rows_.numbers);
  }

  void record(const std::vector<bool>& accepted, const torch::Tensor& middle) {
    std::vector<int64_t> positions, samples;
    Values times;
    const Values now = control_.times();
    for (size_t k = 0; k < accepted.size(); ++k) {
      if (!accepted[k]) continue;
      positions.push_back(static_cast<int64_t>(k));
      samples.push_back(rows_.numbers[k]);
      times.push_back(now[k]);
    }
    if (samples.empty()) return;
    recorder_.add_middles(samples, rows_of(middle, positions));
    recorder_.add_ends(samples, times, rows_of(rows_.x, positions),
                       rows_of(rows_.slope, positions));
  }

  static torch::Tensor as_mask(const std::vector<bool>& accepted) {
    torch::Tensor mask = torch::empty({static_cast<int64_t>(accepted.size())}, torch::kBool);
    for (size_t k = 0; k < accepted.size(); ++k) mask.data_ptr<bool>()[k] = accepted[k];
    return mask;
  }

  // Moves samples that have arrived out of the rows, to the CPU.
  void retire() {
    const auto arrived = control_.arrived();
    if (arrived.empty()) return;
    const torch::Tensor done = rows_of(rows_.x, arrived).to(torch::kCPU);
    for (size_t k = 0; k < arrived.size(); ++k) {
      result_[rows_.numbers[static_cast<size_t>(arrived[k])]].copy_(done[static_cast<int64_t>(k)]);
    }
    const auto staying = control_.retire();
    rows_ = {control_.active(), rows_of(rows_.x, staying), rows_of(rows_.slope, staying),
             select(rows_.conditions, torch::tensor(staying, torch::kLong))};
  }

  const Field& field_;
  const StartStates& starts_;
  const Conditions& conditions_;
  const ReferenceOptions& options_;
  int64_t at_once_;
  DormandPrince control_;
  Rows rows_, ready_;
  int64_t next_ = 0;  // the first sample that has not begun
  torch::Tensor result_;
  StepRecorder recorder_;
  std::vector<int64_t> given_up_;
};

}  // namespace

AdaptiveResult detail::run_adaptive(const Field& field, const StartStates& starts,
                                    const Conditions& conditions, const ReferenceOptions& options) {
  const torch::NoGradGuard no_grad;
  return AdaptiveRun(field, starts, conditions, options).run();
}

torch::ScalarType detail::kept_type(const torch::Tensor& x0) {
  return x0.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
}

ReferenceResult integrate_adaptive(const Field& field, const torch::Tensor& x0,
                                   const Conditions& conditions, const ReferenceOptions& options) {
  const auto states = [&](int64_t begin, int64_t end) {
    return x0.slice(0, begin, end).to(torch::kDouble).contiguous();
  };
  AdaptiveResult result =
      run_adaptive(field, {x0.sizes().vec(), states, kept_type(x0)}, conditions, options);
  // On the FM-OT path time and state are the field's own.
  const TrajectorySpan span = {fm_ot_schedule(), options.start, options.end, options.start,
                               options.end};
  return {result.x, result.evaluations, {std::move(result.steps), span}};
}

}  // namespace bespoke
