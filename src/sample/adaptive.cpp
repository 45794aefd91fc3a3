#include <torch/torch.h>

#include "bespoke/sample/reference.h"
#include "bespoke/solver/dormand_prince.h"
#include "bespoke/tensor/combine.h"

namespace bespoke {

namespace {

using Values = DormandPrince::Values;

// The arrays of a Dormand-Prince run: rows are the samples still on their way.
class AdaptiveRun {
 public:
  AdaptiveRun(const Field& field, const torch::Tensor& x0, const Conditions& conditions,
              const ReferenceOptions& options)
      : field_(field),
        options_(options),
        control_(x0.size(0), {options.tolerances, options.start, options.end,
                              options.most_evaluations, options.first_sample}),
        conditions_(conditions),
        x_(x0.to(torch::kDouble).clone().contiguous()),
        result_(torch::empty_like(x0, torch::kDouble)) {}

  ReferenceResult run() {
    if (!control_.done()) begin();
    while (!control_.done()) {
      attempt();
      retire();
      if (options_.on_progress) options_.on_progress(control_.progress());
    }
    return {result_, torch::tensor(control_.evaluations(), torch::kLong)};
  }

 private:
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
  }

  // One attempted step of every active sample.
  void attempt() {
    torch::Tensor y;
    for (size_t stage = 1; stage < DormandPrince::kStages; ++stage) {
      y = combined(control_.stage_state(stage));
      slopes_.push_back(evaluate(y, control_.stage_times(stage)));
    }
    const Combination error = control_.error();
    const auto accepted = control_.decide(norms(terms_of(error), error.coefficients, y));
    const auto mask = per_sample(as_mask(accepted).to(y.device()), y.dim());
    x_ = torch::where(mask, y, x_);
    slopes_ = {torch::where(mask, slopes_.back(), slopes_.front())};
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
};

}  // namespace

ReferenceResult integrate_adaptive(const Field& field, const torch::Tensor& x0,
                                   const Conditions& conditions, const ReferenceOptions& options) {
  const torch::NoGradGuard no_grad;
  return AdaptiveRun(field, x0, conditions, options).run();
}

}  // namespace bespoke
