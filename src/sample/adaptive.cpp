#include "adaptive.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "bespoke/solver/dormand_prince.h"
#include "bespoke/tensor/combine.h"

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

// The arrays of a Dormand-Prince run: rows are the samples still on their way.
class AdaptiveRun {
 public:
  AdaptiveRun(const Field& field, const torch::Tensor& x0, const Conditions& conditions,
              const ReferenceOptions& options, torch::ScalarType kept_type)
      : field_(field),
        options_(options),
        control_(x0.size(0), {options.tolerances, options.start, options.end,
                              options.most_evaluations, options.first_sample, giving_up()}),
        conditions_(conditions),
        x_(x0.to(torch::kDouble).clone().contiguous()),
        result_(torch::empty_like(x0, torch::kDouble)),
        recorder_(std::min(options.record, x0.size(0)), kept_type) {}

  AdaptiveResult run() {
    if (!control_.done()) begin();
    while (!control_.done()) {
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

  torch::Tensor evaluate(const torch::Tensor& x, const Values& t) const {
    return field_.velocity(x, torch::tensor(t, torch::kDouble), conditions_)
        .to(torch::kDouble)
        .contiguous();
  }

  std::vector<torch::Tensor> terms_of(const Combination& sum) const {
    std::vector<torch::Tensor> terms;
    for (const size_t term : sum.terms) terms.push_back(term == 0 ? x_ : slopes_[term - 1]);
    return terms;
  }

  torch::Tensor combined(const Combination& sum) const {
    torch::Tensor x = torch::empty_like(x_);
    combine_per_sample(x, terms_of(sum), sum.coefficients);
    return x;
  }

  Values norms(const std::vector<torch::Tensor>& terms, const std::vector<Values>& coefficients,
               const torch::Tensor& y) const {
    return scaled_norms(terms, coefficients, x_, y, options_.tolerances.rtol,
                        options_.tolerances.atol);
  }

  void begin() {
    slopes_ = {evaluate(x_, control_.times())};
    const Values ones(control_.active().size(), 1.0), minus(control_.active().size(), -1.0);
    control_.guess(norms({x_}, {ones}, x_), norms(slopes_, {ones}, x_));
    const auto slope = evaluate(combined(control_.guess_state()), control_.guess_times());
    control_.begin(norms({slope, slopes_[0]}, {ones, minus}, x_));
    if (records()) recorder_.add_ends(control_.active(), control_.times(), x_, slopes_[0]);
  }

  // One attempted step of every active sample.
  void attempt() {
    torch::Tensor y;
    for (size_t stage = 1; stage < DormandPrince::kStages; ++stage) {
      y = combined(control_.stage_state(stage));
      slopes_.push_back(evaluate(y, control_.stage_times(stage)));
    }
    const Combination error = control_.error();
    const auto error_norms = norms(terms_of(error), error.coefficients, y);
    const auto middle = records() ? combined(control_.middle()) : torch::Tensor();
    const auto accepted = control_.decide(error_norms);
    const auto mask = per_sample(as_mask(accepted).to(y.device()), y.dim());
    x_ = torch::where(mask, y, x_);
    slopes_ = {torch::where(mask, slopes_.back(), slopes_.front())};
    if (records()) record(accepted, middle);
  }

  void record(const std::vector<bool>& accepted, const torch::Tensor& middle) {
    std::vector<int64_t> positions, samples;
    Values times;
    const Values now = control_.times();
    for (size_t k = 0; k < accepted.size(); ++k) {
      if (!accepted[k]) continue;
      positions.push_back(static_cast<int64_t>(k));
      samples.push_back(control_.active()[k]);
      times.push_back(now[k]);
    }
    if (samples.empty()) return;
    const auto rows = torch::tensor(positions, torch::kLong).to(middle.device());
    recorder_.add_middles(samples, middle.index_select(0, rows));
    recorder_.add_ends(samples, times, x_.index_select(0, rows), slopes_[0].index_select(0, rows));
  }

  static torch::Tensor as_mask(const std::vector<bool>& accepted) {
    torch::Tensor mask = torch::empty({static_cast<int64_t>(accepted.size())}, torch::kBool);
    for (size_t k = 0; k < accepted.size(); ++k) mask.data_ptr<bool>()[k] = accepted[k];
    return mask;
  }

  // Moves samples that have arrived out of the batch.
  void retire() {
    const auto arrived = control_.arrived();
    if (arrived.empty()) return;
    const auto rows = torch::tensor(arrived, torch::kLong);
    const auto numbers = torch::tensor(control_.active(), torch::kLong).index_select(0, rows);
    result_.index_copy_(0, numbers.to(x_.device()), x_.index_select(0, rows.to(x_.device())));
    const auto staying = torch::tensor(control_.retire(), torch::kLong);
    x_ = x_.index_select(0, staying.to(x_.device()));
    slopes_ = {slopes_[0].index_select(0, staying.to(x_.device()))};
    conditions_ = select(conditions_, staying);
  }

  const Field& field_;
  const ReferenceOptions& options_;
  DormandPrince control_;
  Conditions conditions_;
  torch::Tensor x_, result_;
  std::vector<torch::Tensor> slopes_;  // of the stages so far
  StepRecorder recorder_;
  std::vector<int64_t> given_up_;
};

}  // namespace

AdaptiveResult detail::run_adaptive(const Field& field, const torch::Tensor& x0,
                                    const Conditions& conditions, const ReferenceOptions& options,
                                    torch::ScalarType kept_type) {
  const torch::NoGradGuard no_grad;
  return AdaptiveRun(field, x0, conditions, options, kept_type).run();
}

torch::ScalarType detail::kept_type(const torch::Tensor& x0) {
  return x0.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
}

ReferenceResult integrate_adaptive(const Field& field, const torch::Tensor& x0,
                                   const Conditions& conditions, const ReferenceOptions& options) {
  AdaptiveResult result = run_adaptive(field, x0, conditions, options, kept_type(x0));
  // On the FM-OT path time and state are the field's own.
  const TrajectorySpan span = {fm_ot_schedule(), options.start, options.end, options.start,
                               options.end};
  return {result.x, result.evaluations, {std::move(result.steps), span}};
}

}  // namespace bespoke
