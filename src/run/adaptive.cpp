#include "bespoke/run/adaptive.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "bespoke/base/batches.h"

namespace bespoke {

using namespace detail;

namespace {

using Values = DormandPrince::Values;

// Collects the accepted steps of the first so many samples.
class StepRecorder {
 public:
  StepRecorder(const Arrays& arrays, Array like, int64_t count)
      : arrays_(arrays), like_(std::move(like)), steps_(static_cast<size_t>(count)) {}

  bool records() const { return !steps_.empty(); }

  // A row of x, slope or middle belongs to the sample whose number `samples` has there.
  void add_ends(const std::vector<int64_t>& samples, const Values& times, const Array& x,
                const Array& slope) {
    for (size_t k = 0; k < samples.size(); ++k) {
      if (is_kept(samples[k])) of(samples[k]).times.push_back(times[k]);
    }
    append(samples, x, &RecordedSteps::states);
    append(samples, slope, &RecordedSteps::slopes);
  }

  void add_middles(const std::vector<int64_t>& samples, const Array& middle) {
    append(samples, middle, &RecordedSteps::middles);
  }

  // Puts one step of this state in place of all that was recorded of a sample.
  void forget(int64_t sample, const Array& state, double start, double end) {
    if (!is_kept(sample)) return;
    const Array copy = arrays_.kept(arrays_.cast(state, like_));
    of(sample) = {{start, end}, {copy, copy}, {copy, copy}, {copy}};
  }

  std::vector<RecordedSteps> take() { return std::move(steps_); }

 private:
  bool is_kept(int64_t sample) const { return sample < static_cast<int64_t>(steps_.size()); }
  RecordedSteps& of(int64_t sample) { return steps_[static_cast<size_t>(sample)]; }

  void append(const std::vector<int64_t>& samples, const Array& rows,
              std::vector<Array> RecordedSteps::*part) {
    std::vector<int64_t> places;
    for (size_t k = 0; k < samples.size(); ++k) {
      if (is_kept(samples[k])) places.push_back(static_cast<int64_t>(k));
    }
    if (places.empty()) return;
    const bool all = places.size() == samples.size();
    const Array copies = arrays_.kept(arrays_.cast(all ? rows : arrays_.take(rows, places), like_));
    for (size_t k = 0; k < places.size(); ++k) {
      const auto row = static_cast<int64_t>(k);
      (of(samples[static_cast<size_t>(places[k])]).*part)
          .push_back(arrays_.rows(copies, row, row + 1));
    }
  }

  const Arrays& arrays_;
  Array like_;
  std::vector<RecordedSteps> steps_;
};

// The arrays of a Dormand-Prince run. What has steps of its own is a traveller: a sample, or all of
// them together. At most so many move at a time, the rows; as soon as one arrives, one that waits
// takes its place, so that the field sees full batches to the end. They begin, two evaluations
// each, a full batch at a time as well: those that have begun are ready.
class AdaptiveRun {
 public:
  AdaptiveRun(const IntegrationProblem& problem, const ReferenceOptions& options)
      : problem_(problem),
        arrays_(problem.arrays),
        options_(options),
        count_(static_cast<int64_t>(problem.samples.size())),
        size_(options.together ? count_ : 1),
        travellers_(options.together ? 1 : count_),
        at_once_(options.batch > 0 && !options.together ? options.batch : travellers_),
        control_(travellers_, {options.tolerances, options.start, options.end,
                               options.most_evaluations, options.first_sample, giving_up()}),
        results_(static_cast<size_t>(count_)),
        recorder_(arrays_, problem.like, std::min(options.record, count_)) {
    control_.focus({});
  }

  IntegrationResult run() {
    for (refill(); !control_.done(); refill()) {
      attempt();
      retire();
      if (options_.on_progress) options_.on_progress(control_.progress());
    }
    forget_given_up();
    std::vector<int64_t> evaluations;
    for (const int64_t spent : control_.evaluations()) {
      evaluations.insert(evaluations.end(), static_cast<size_t>(size_), spent);
    }
    return {arrays_.concatenate(results_), std::move(evaluations), recorder_.take()};
  }

 private:
  // Travellers between two steps, a row for each of their samples.
  struct Rows {
    std::vector<int64_t> travellers = {};
    Array x = {}, slope = {};

    int64_t count() const { return static_cast<int64_t>(travellers.size()); }
  };

  Rows part(const Rows& rows, int64_t begin, int64_t end) const {
    return {{rows.travellers.begin() + begin, rows.travellers.begin() + end},
            arrays_.rows(rows.x, begin * size_, end * size_),
            arrays_.rows(rows.slope, begin * size_, end * size_)};
  }

  void append(Rows& rows, Rows more) const {
    if (more.count() == 0) return;
    if (rows.count() == 0) {
      rows = std::move(more);
      return;
    }
    rows.travellers.insert(rows.travellers.end(), more.travellers.begin(), more.travellers.end());
    rows.x = arrays_.concatenate({rows.x, more.x});
    rows.slope = arrays_.concatenate({rows.slope, more.slope});
  }

  std::function<void(int64_t, const std::string&)> giving_up() {
    if (!options_.on_given_up) return nullptr;
    return [this](int64_t number, const std::string& why) {
      given_up_.push_back(number - options_.first_sample);
      options_.on_given_up(number, why);
    };
  }

  void forget_given_up() {
    for (const int64_t traveller : given_up_) {
      for (const int64_t sample : samples_of({traveller})) {
        Array& result = results_[static_cast<size_t>(sample)];
        result = arrays_.combine({std::numeric_limits<double>::quiet_NaN()}, {result}, result);
        recorder_.forget(sample, result, options_.start, options_.end);
      }
    }
  }

  // The places of their samples among all, or of their rows where they are known by their
  // positions.
  std::vector<int64_t> samples_of(const std::vector<int64_t>& travellers) const {
    std::vector<int64_t> samples;
    for (const int64_t traveller : travellers) {
      for (int64_t k = 0; k < size_; ++k) samples.push_back(traveller * size_ + k);
    }
    return samples;
  }

  // What each traveller has, for each of its rows.
  template <class Value>
  std::vector<Value> by_row(const std::vector<Value>& values) const {
    std::vector<Value> rows;
    for (const Value value : values) rows.insert(rows.end(), static_cast<size_t>(size_), value);
    return rows;
  }

  // Does work(size), where memory runs out for half as many, and all after it with as many.
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
    while (rows_.count() < at_once_ && (ready_.count() > 0 || next_ < travellers_)) {
      if (ready_.count() == 0) begin_more();
      const int64_t room = std::max<int64_t>(0, at_once_ - rows_.count());
      const int64_t joining = std::min(room, ready_.count());
      append(rows_, part(ready_, 0, joining));
      ready_ = part(ready_, joining, ready_.count());
    }
    control_.focus(rows_.travellers);
  }

  void begin_more() {
    next_ += with_room(std::min(at_once_, travellers_ - next_), [&](int64_t size) {
      Rows fresh;
      fresh.travellers.resize(static_cast<size_t>(size));
      std::iota(fresh.travellers.begin(), fresh.travellers.end(), next_);
      fresh.x = problem_.start(next_ * size_, (next_ + size) * size_);
      control_.focus(fresh.travellers);
      begin(fresh);
      ready_ = std::move(fresh);
    });
    if (recorder_.records()) {
      recorder_.add_ends(samples_of(ready_.travellers), by_row(control_.times()), ready_.x,
                         ready_.slope);
    }
  }

  void begin(Rows& fresh) {
    const auto norm = [&](const std::vector<Values>& coefficients,
                          const std::vector<Array>& terms) {
      return norms(coefficients, terms, fresh.x, fresh.x);
    };
    const Values ones(fresh.travellers.size(), 1.0), minus(fresh.travellers.size(), -1.0);
    fresh.slope = slope(fresh, fresh.x, control_.times());
    control_.guess(norm({ones}, {fresh.x}), norm({ones}, {fresh.slope}));
    const Array there = combined(control_.guess_state(), fresh, {fresh.slope});
    const Array slope_there = slope(fresh, there, control_.guess_times());
    control_.begin(norm({ones, minus}, {slope_there, fresh.slope}));
  }

  Array slope(const Rows& rows, const Array& x, const Values& times) const {
    std::vector<int64_t> samples;
    for (const int64_t place : samples_of(rows.travellers)) {
      samples.push_back(problem_.samples[static_cast<size_t>(place)]);
    }
    return arrays_.wide(problem_.slope(x, options_.together ? times : by_row(times), samples));
  }

  static std::vector<Array> terms_of(const Combination& sum, const Rows& rows,
                                     const std::vector<Array>& slopes) {
    std::vector<Array> terms;
    for (const size_t term : sum.terms) terms.push_back(term == 0 ? rows.x : slopes[term - 1]);
    return terms;
  }

  std::vector<Values> each_by_row(const std::vector<Values>& coefficients) const {
    std::vector<Values> rows;
    for (const Values& of_term : coefficients) rows.push_back(by_row(of_term));
    return rows;
  }

  Array combined(const Combination& sum, const Rows& rows, const std::vector<Array>& slopes) const {
    return arrays_.combine_per_sample(each_by_row(sum.coefficients), terms_of(sum, rows, slopes));
  }

  // The norm of each traveller: the root of the mean square over its rows.
  Values norms(const std::vector<Values>& coefficients, const std::vector<Array>& terms,
               const Array& x, const Array& y) const {
    Values rows = arrays_.scaled_norms(each_by_row(coefficients), terms, x, y,
                                       options_.tolerances.rtol, options_.tolerances.atol);
    if (size_ == 1) return rows;
    Values result;
    for (auto begin = rows.begin(); begin != rows.end(); begin += size_) {
      const double squares = std::inner_product(begin, begin + size_, begin, 0.0);
      result.push_back(std::sqrt(squares / static_cast<double>(size_)));
    }
    return result;
  }

  // What an attempted step of every row comes to.
  struct Attempt {
    Array y, slope, middle;
    Values errors;
  };

  Attempt stages() const {
    Attempt outcome;
    std::vector<Array> slopes = {rows_.slope};
    for (size_t stage = 1; stage < DormandPrince::kStages; ++stage) {
      outcome.y = combined(control_.stage_state(stage), rows_, slopes);
      slopes.push_back(slope(rows_, outcome.y, control_.stage_times(stage)));
    }
    const Combination error = control_.error();
    outcome.errors = norms(error.coefficients, terms_of(error, rows_, slopes), rows_.x, outcome.y);
    outcome.slope = slopes.back();
    if (recorder_.records()) outcome.middle = combined(control_.middle(), rows_, slopes);
    return outcome;
  }

  void attempt() {
    Attempt outcome;
    // Nothing is changed before all stages are there, so rows may be set aside and it tried again.
    with_room(rows_.count(), [&](int64_t size) {
      set_aside(size);
      outcome = stages();
    });
    const auto accepted = control_.decide(outcome.errors);
    const std::vector<bool> mask = by_row(accepted);
    rows_.x = arrays_.choose(mask, outcome.y, rows_.x);
    rows_.slope = arrays_.choose(mask, outcome.slope, rows_.slope);
    if (recorder_.records()) record(accepted, outcome.middle);
  }

  // Leaves so many rows; the others are the first of those that are ready.
  void set_aside(int64_t staying) {
    if (staying >= rows_.count()) return;
    Rows waiting = part(rows_, staying, rows_.count());
    append(waiting, ready_);
    ready_ = std::move(waiting);
    rows_ = part(rows_, 0, staying);
    control_.focus(rows_.travellers);
  }

  void record(const std::vector<bool>& accepted, const Array& middle) {
    std::vector<int64_t> positions, travellers;
    Values times;
    const Values now = control_.times();
    for (size_t k = 0; k < accepted.size(); ++k) {
      if (!accepted[k]) continue;
      positions.push_back(static_cast<int64_t>(k));
      travellers.push_back(rows_.travellers[k]);
      times.push_back(now[k]);
    }
    if (travellers.empty()) return;
    const std::vector<int64_t> rows = samples_of(positions), samples = samples_of(travellers);
    recorder_.add_middles(samples, arrays_.take(middle, rows));
    recorder_.add_ends(samples, by_row(times), arrays_.take(rows_.x, rows),
                       arrays_.take(rows_.slope, rows));
  }

  // Moves those that have arrived out of the rows.
  void retire() {
    const auto arrived = control_.arrived();
    if (arrived.empty()) return;
    const Array done = arrays_.kept(arrays_.take(rows_.x, samples_of(arrived)));
    int64_t row = 0;
    for (const int64_t position : arrived) {
      for (const int64_t sample : samples_of({rows_.travellers[static_cast<size_t>(position)]})) {
        results_[static_cast<size_t>(sample)] = arrays_.rows(done, row, row + 1);
        ++row;
      }
    }
    const auto staying = samples_of(control_.retire());
    rows_ = {control_.active(), arrays_.take(rows_.x, staying), arrays_.take(rows_.slope, staying)};
  }

  const IntegrationProblem& problem_;
  const Arrays& arrays_;
  const ReferenceOptions& options_;
  int64_t count_, size_, travellers_, at_once_;
  DormandPrince control_;
  Rows rows_, ready_;
  int64_t next_ = 0;  // the first that has not begun
  std::vector<Array> results_;
  StepRecorder recorder_;
  std::vector<int64_t> given_up_;
};

}  // namespace

IntegrationResult integrate_adaptive(const IntegrationProblem& problem,
                                     const ReferenceOptions& options) {
  return AdaptiveRun(problem, options).run();
}

}  // namespace bespoke
