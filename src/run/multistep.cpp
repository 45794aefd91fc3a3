#include "bespoke/run/multistep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/solver/exponential_step.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr size_t kOrder = 3;  // evaluations that a step looks back at
constexpr size_t kDense = 6;  // that a state in between is made of

// So many evaluations at most, `count` of them known, around the step after `before`.
std::pair<size_t, size_t> around(size_t before, size_t count, size_t most) {
  const size_t latest = count > most ? count - most : 0;
  const size_t first = before + 1 > most / 2 ? before + 1 - most / 2 : 0;
  return {std::min(first, latest), std::min(count, std::min(first, latest) + most)};
}

// The way of some samples, side by side.
class MultistepWay {
 public:
  MultistepWay(const IntegrationProblem& problem, const std::vector<double>& times, double end)
      : problem_(problem), arrays_(problem.arrays), times_(times), end_time_(end) {}

  void draw(Array state, const std::vector<int64_t>& samples,
            const std::function<void(double)>& report) {
    for (size_t i = 0; i < times_.size(); ++i) {
      const Array slope = arrays_.wide(problem_.slope(state, {times_[i]}, samples));
      data_.push_back(arrays_.combine({1, 1 - times_[i]}, {state, slope}, state));
      states_.push_back(i == 0 ? state : step(i - 1, times_[i], latest(i + 1)));
      if (i + 1 < times_.size()) state = step(i, times_[i + 1], latest(i + 1));
      report(static_cast<double>(i + 1) / static_cast<double>(times_.size()));
    }
    // Beyond the last evaluation its prediction is held, which makes the rest a straight line.
    const double left = 1 - times_.back();
    end_ = arrays_.combine({(1 - end_time_) / left, (end_time_ - times_.back()) / left},
                           {states_.back(), data_.back()}, state);
  }

  const Array& end() const { return end_; }

  // Those of the first so many samples.
  std::vector<RecordedSteps> recorded(int64_t count) const {
    std::vector<RecordedSteps> all(static_cast<size_t>(count));
    const size_t n = times_.size();
    for (size_t i = 0; i < n; ++i) {
      append(all, times_[i], states_[i], slope(i));
      if (i + 1 < n) append(all, &RecordedSteps::middles, middle(i));
    }
    if (end_time_ > times_.back()) {
      append(all, &RecordedSteps::middles,
             arrays_.combine({0.5, 0.5}, {states_[n - 1], end_}, end_));
      append(all, end_time_, end_, slope(n - 1));
    }
    return all;
  }

 private:
  using Known = std::pair<size_t, size_t>;

  static Known latest(size_t count) { return {count > kOrder ? count - kOrder : 0, count}; }

  Array step(size_t from, double to, Known evaluations) const {
    const auto part = [&](const auto& all) {
      return std::vector(all.begin() + static_cast<std::ptrdiff_t>(evaluations.first),
                         all.begin() + static_cast<std::ptrdiff_t>(evaluations.second));
    };
    const ExponentialStep numbers = exponential_step(times_[from], to, part(times_));
    std::vector<double> coefficients = {numbers.state};
    coefficients.insert(coefficients.end(), numbers.data.begin(), numbers.data.end());
    std::vector<Array> terms = part(data_);
    terms.insert(terms.begin(), states_[from]);
    return arrays_.combine(coefficients, terms, states_[from]);
  }

  Array middle(size_t i) const {
    return step(i, (times_[i] + times_[i + 1]) / 2, around(i, times_.size(), kDense));
  }

  Array slope(size_t i) const {
    const double left = 1 - times_[i];
    return arrays_.combine({1 / left, -1 / left}, {data_[i], states_[i]}, states_[i]);
  }

  void append(std::vector<RecordedSteps>& all, double time, const Array& state,
              const Array& slope) const {
    for (RecordedSteps& one : all) one.times.push_back(time);
    append(all, &RecordedSteps::states, state);
    append(all, &RecordedSteps::slopes, slope);
  }

  void append(std::vector<RecordedSteps>& all, std::vector<Array> RecordedSteps::*part,
              const Array& rows) const {
    const Array copies = arrays_.kept(arrays_.cast(rows, problem_.like));
    for (size_t k = 0; k < all.size(); ++k) {
      const auto row = static_cast<int64_t>(k);
      (all[k].*part).push_back(arrays_.rows(copies, row, row + 1));
    }
  }

  const IntegrationProblem& problem_;
  const Arrays& arrays_;
  const std::vector<double>& times_;
  double end_time_;
  std::vector<Array> states_, data_;
  Array end_;
};

// Says which samples are not finite, or makes an error of the first.
void give_up(const Arrays& arrays, const Array& x, int64_t first, const ReferenceOptions& options) {
  if (arrays.is_finite(x)) return;
  const std::string why = "the model returned NaN or infinity on its way";
  const std::vector<double> sizes = arrays.root_mean_squares(x);
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (std::isfinite(sizes[k])) continue;
    const int64_t sample = options.first_sample + first + static_cast<int64_t>(k);
    if (!options.on_given_up) {
      throw Error(ErrorKind::diverged, fmt::format("the reference cannot draw sample {}: {}; check "
                                                   "the model near t = 0 and t = 1",
                                                   sample, why));
    }
    options.on_given_up(sample, why);
  }
}

}  // namespace

IntegrationResult integrate_multistep(const IntegrationProblem& problem, int64_t evaluations,
                                      double last, const ReferenceOptions& options) {
  const Arrays& arrays = problem.arrays;
  const auto times = even_warped_times(options.start, last, static_cast<int>(evaluations));
  const auto count = static_cast<int64_t>(problem.samples.size());
  IntegrationResult result;
  std::vector<Array> ends;
  int64_t batch = options.batch > 0 ? options.batch : count;
  for (int64_t begin = 0; begin < count;) {
    batch = within_memory(std::min(batch, count - begin), options.on_less, [&](int64_t size) {
      MultistepWay way(problem, times, options.end);
      const auto first = problem.samples.begin() + begin;
      way.draw(problem.start(begin, begin + size), {first, first + size}, [&](double done) {
        if (!options.on_progress) return;
        options.on_progress((static_cast<double>(begin) + done * static_cast<double>(size)) /
                            static_cast<double>(count));
      });
      give_up(arrays, way.end(), begin, options);
      ends.push_back(arrays.kept(way.end()));
      const int64_t records = std::clamp<int64_t>(options.record - begin, 0, size);
      for (RecordedSteps& one : way.recorded(records)) result.steps.push_back(std::move(one));
      return size;
    });
    begin += batch;
  }
  result.x = arrays.concatenate(ends);
  result.evaluations.assign(static_cast<size_t>(count), evaluations);
  return result;
}

}  // namespace bespoke
