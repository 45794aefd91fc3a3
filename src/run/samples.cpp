#include "bespoke/run/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "bespoke/base/batches.h"
#include "bespoke/base/error.h"
#include "bespoke/base/packing.h"

namespace bespoke {

using namespace detail;

namespace {

double log_error(double squared_error, double size) {
  return std::log(std::max(squared_error / size, kLeastError));
}

// From the inner products of all columns and, last, the residual.
LinearModel::Sample sample_of(const Matrix& gram) {
  const size_t n = gram.rows - 1;
  LinearModel::Sample sample{gram(n, n), std::vector<double>(n), Matrix(n, n)};
  for (size_t i = 0; i < n; ++i) {
    sample.products[i] = gram(n, i);
    for (size_t j = 0; j < n; ++j) sample.gram(i, j) = gram(i, j);
  }
  return sample;
}

void pack(const LinearModel::Sample& sample, Packer& packer) {
  packer.add(sample.squared_error).add(sample.products).add(sample.gram.values);
}

LinearModel::Sample unpack(Unpacker& unpacker) {
  LinearModel::Sample sample;
  sample.squared_error = unpacker.number();
  sample.products = unpacker.numbers();
  sample.gram = Matrix(sample.products.size(), sample.products.size());
  sample.gram.values = unpacker.numbers();
  return sample;
}

bool is_divergence(const Error& error) { return error.kind() == ErrorKind::diverged; }

// Every sample of several sets, once.
std::vector<int64_t> union_of(const std::vector<std::vector<int64_t>>& sets) {
  std::vector<int64_t> all;
  for (const auto& set : sets) {
    for (const int64_t sample : set) {
      if (std::find(all.begin(), all.end(), sample) == all.end()) all.push_back(sample);
    }
  }
  return all;
}

std::vector<int64_t> counted(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

Samples::Samples(std::shared_ptr<const ArrayField> field, Array noise, const Array& x1,
                 std::shared_ptr<const Trajectories> trajectories, EvaluationOptions options,
                 std::vector<int64_t> numbers)
    : field_(std::move(field)),
      arrays_(field_->arrays()),
      noise_(std::move(noise)),
      trajectories_(std::move(trajectories)),
      options_(std::move(options)),
      numbers_(std::move(numbers)) {
  const int64_t rows = arrays_.count(noise_);
  if (rows == 0 || arrays_.count(x1) != rows) {
    throw bad_input("pairs need as many samples as noises and at least one, found {} and {}",
                    arrays_.count(x1), rows);
  }
  if (numbers_.empty()) numbers_ = counted(rows);
  targets_ = x1;
  if (options_.decode) {
    std::vector<Array> parts;
    for_each_batch(rows, options_.batch, nullptr, [&](int64_t begin, int64_t end, const auto&) {
      parts.push_back(options_.decode(arrays_.rows(x1, begin, end)));
    });
    targets_ = arrays_.concatenate(parts);
  }
  size_ = numbers_in_sample_ = static_cast<double>(arrays_.sample_size(targets_));
  if (options_.mask) weigh(options_.mask);
  double squares = 0;
  for (const double size : arrays_.root_mean_squares(counting(x1, counted(rows)))) {
    squares += size * size;
  }
  deviation_ = std::sqrt(squares * numbers_in_sample_ / size_ / static_cast<double>(rows));
}

// A sample in which few numbers count weighs as much as one in which many do: its error is the mean
// over those that count in it.
void Samples::weigh(const Array& mask) {
  if (options_.decode) {
    throw bad_input(
        "an error mask says which numbers of the model's samples count, and errors are of what "
        "they decode to; leave out one of the two");
  }
  const int64_t rows = arrays_.count(mask);
  if ((rows != 1 && rows != count()) ||
      arrays_.sample_size(mask) != arrays_.sample_size(targets_)) {
    throw bad_input(
        "an error mask must have a row of {} numbers for each of {} samples or one for all, found "
        "{} rows of {}",
        arrays_.sample_size(targets_), count(), rows, arrays_.sample_size(mask));
  }
  std::vector<double> counts;
  for (const double size : arrays_.root_mean_squares(mask)) {
    counts.push_back(size * size * numbers_in_sample_);
    if (counts.back() > 0) continue;
    throw bad_input("the error mask of sample {} is 0 throughout; at least one number must count",
                    counts.size() - 1);
  }
  size_ = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(rows);
  std::vector<double> scales;
  for (const double own : counts) scales.push_back(std::sqrt(size_ / own));
  weights_ = arrays_.combine_per_sample({scales}, {mask});
}

// The numbers that count in errors, with zeros for the others; `x` has some columns of these
// samples.
Array Samples::counting(const Array& x, const std::vector<int64_t>& rows) const {
  if (!weights_) return x;
  return arrays_.weighed(x, arrays_.count(weights_) == 1 ? weights_ : arrays_.take(weights_, rows));
}

int64_t Samples::trajectories() const {
  return trajectories_ ? std::min(trajectories_->count(), count()) : 0;
}

std::vector<int64_t> Samples::own(const std::vector<int64_t>& samples) const {
  if (team().size() == 1) return samples;
  std::vector<int64_t> mine;
  for (const int64_t sample : samples) {
    if (sample % team().size() == team().rank()) mine.push_back(sample);
  }
  return mine;
}

std::vector<int64_t> Samples::numbers_of(const std::vector<int64_t>& rows) const {
  std::vector<int64_t> numbers;
  for (const int64_t row : rows) numbers.push_back(numbers_[static_cast<size_t>(row)]);
  return numbers;
}

Array Samples::measured(const Array& x) const { return options_.decode ? options_.decode(x) : x; }

Array Samples::residual(const Array& x, const std::vector<int64_t>& rows) const {
  const Array y = measured(x);
  const Array all = arrays_.combine({1, -1}, {y, arrays_.cast(arrays_.take(targets_, rows), y)}, y);
  return counting(all, rows);
}

// Does a part of some work, which fails for all where it fails for one; counts are those of all.
void Samples::agree(Counts* counts, const std::function<void(Counts*)>& work) const {
  if (team().size() == 1) return work(counts);
  const auto all = exchange_work(team(), [&] {
    Counts spent;
    work(&spent);
    return Packer().add(spent.forwards).add(spent.vjps).bytes();
  });
  for (const std::string& bytes : all) {
    Unpacker unpacker(bytes);
    counts->forwards += unpacker.integer();
    counts->vjps += unpacker.integer();
  }
}

// What the members say of their samples, in the order of all.
LinearModel Samples::linear_model(const std::vector<int64_t>& samples, Counts* counts,
                                  const Work& work) const {
  LinearModel model;
  model.size = size_;
  if (team().size() == 1) {
    work(counts, model.samples);
    return model;
  }
  const auto all = exchange_work(team(), [&] {
    Counts spent;
    std::vector<LinearModel::Sample> mine;
    work(&spent, mine);
    Packer packer;
    packer.add(spent.forwards).add(spent.vjps);
    for (const auto& sample : mine) pack(sample, packer);
    return packer.bytes();
  });
  std::vector<Unpacker> members;
  for (const std::string& bytes : all) {
    members.emplace_back(bytes);
    counts->forwards += members.back().integer();
    counts->vjps += members.back().integer();
  }
  for (const int64_t sample : samples) {
    model.samples.push_back(unpack(members[static_cast<size_t>(sample % team().size())]));
  }
  return model;
}

SolverRun Samples::run_part(const NsSolver& solver, const std::vector<int64_t>& rows,
                            Counts* counts, Keep keep) const {
  SolverRun run = run_solver(*field_, solver, arrays_.take(noise_, rows), numbers_of(rows), keep,
                             rows.front(), counts);
  run.samples = rows;
  return run;
}

Runs Samples::run(const NsSolver& solver, const std::vector<int64_t>& samples, Counts* counts,
                  Keep keep) const {
  Runs runs{samples, {}};
  agree(counts, [&](Counts* spent) {
    const std::vector<int64_t> mine = own(samples);
    for_each_batch(static_cast<int64_t>(mine.size()), options_.batch, nullptr,
                   [&](int64_t begin, int64_t end, const auto&) {
                     runs.parts.push_back(
                         run_part(solver, {mine.begin() + begin, mine.begin() + end}, spent, keep));
                   });
  });
  return runs;
}

std::optional<Runs> Samples::run_or_none(const NsSolver& solver,
                                         const std::vector<int64_t>& samples, Counts* counts,
                                         Keep keep) const {
  try {
    return run(solver, samples, counts, keep);
  } catch (const Error& error) {
    if (!is_divergence(error)) throw;
    return {};
  }
}

// Whether every member can run so many solvers on its part of the samples in one batch.
bool Samples::fits(size_t solvers, const std::vector<int64_t>& samples) const {
  if (!options_.joins_runs || solvers * samples.size() < 2) return false;
  const auto members = static_cast<size_t>(team().size());
  std::vector<size_t> shares(members, 0);
  for (const int64_t sample : samples) ++shares[static_cast<size_t>(sample) % members];
  const size_t largest = *std::max_element(shares.begin(), shares.end());
  return static_cast<int64_t>(solvers * largest) <= options_.batch;
}

// Elsewhere than where runs are joined, a run that goes on must find what an unbroken one had, to
// the bit, and a network's answer about a sample may depend on those beside it.
std::vector<std::optional<Runs>> Samples::run_sets(const NsSolver& solver,
                                                   const std::vector<std::vector<int64_t>>& sets,
                                                   Counts* counts) const {
  std::vector<std::optional<Runs>> all;
  const std::vector<int64_t> together = union_of(sets);
  if (sets.size() > 1 && fits(1, together)) {
    if (const auto joined = run_or_none(solver, together, counts)) {
      for (const auto& set : sets) all.emplace_back(rows_of(*joined, set));
      return all;
    }
  }
  for (const auto& set : sets) all.push_back(run_or_none(solver, set, counts));
  return all;
}

std::vector<std::optional<Runs>> Samples::run_ends(const NsSolver& solver,
                                                   const std::vector<std::vector<int64_t>>& sets,
                                                   Counts* counts) const {
  std::vector<std::optional<Runs>> all;
  std::vector<int64_t> together;
  for (const auto& set : sets) together.insert(together.end(), set.begin(), set.end());
  const auto ends =
      together.empty() ? std::optional<Runs>() : run_or_none(solver, together, counts, Keep::end);
  if (!ends) {
    for (const auto& set : sets) all.push_back(run_or_none(solver, set, counts, Keep::end));
    return all;
  }
  std::vector<Array> parts;
  for (const SolverRun& part : ends->parts) parts.push_back(part.end());
  const Array mine_of_all = parts.empty() ? Array() : arrays_.concatenate(parts);
  int64_t begin = 0;
  for (const auto& set : sets) {
    const std::vector<int64_t> mine = own(set);
    const int64_t end = begin + static_cast<int64_t>(mine.size());
    Runs runs{set, {}};
    if (end > begin) {
      runs.parts.push_back({solver, mine, {arrays_.rows(mine_of_all, begin, end)}, {}, {}});
    }
    all.emplace_back(std::move(runs));
    begin = end;
  }
  return all;
}

std::vector<std::optional<Runs>> Samples::run_each(const std::vector<NsSolver>& solvers,
                                                   const std::vector<int64_t>& samples,
                                                   Counts* counts) const {
  std::vector<std::optional<Runs>> all;
  if (solvers.size() < 2 || !fits(solvers.size(), samples)) {
    for (const NsSolver& solver : solvers) all.push_back(run_or_none(solver, samples, counts));
    return all;
  }
  std::vector<SolverRun> side_by_side;
  agree(counts, [&](Counts* spent) {
    const std::vector<int64_t> mine = own(samples);
    if (mine.empty()) return;
    side_by_side =
        run_side_by_side(*field_, solvers, arrays_.take(noise_, mine), numbers_of(mine), spent);
    for (SolverRun& run : side_by_side) run.samples = mine;
  });
  for (size_t k = 0; k < solvers.size(); ++k) {
    const bool mine_is_not = !side_by_side.empty() && !is_finite(arrays_, side_by_side[k]);
    const bool broken = team().size() > 1 ? any_of(team(), mine_is_not) : mine_is_not;
    if (broken) {
      all.emplace_back();
    } else {
      all.push_back(Runs{
          samples, side_by_side.empty() ? std::vector<SolverRun>() : std::vector{side_by_side[k]}});
    }
  }
  return all;
}

// The runs of some samples, out of runs in one batch.
Runs Samples::rows_of(const Runs& runs, const std::vector<int64_t>& samples) const {
  Runs part{samples, {}};
  const std::vector<int64_t> mine = own(samples);
  if (mine.empty()) return part;
  const SolverRun& run = runs.parts.front();
  std::vector<int64_t> rows;
  for (const int64_t sample : mine) {
    rows.push_back(std::find(run.samples.begin(), run.samples.end(), sample) - run.samples.begin());
  }
  part.parts = {rows_of_run(arrays_, run, rows)};
  return part;
}

Runs Samples::with_last_step(Runs runs, const NsSolver& solver) const {
  for (SolverRun& part : runs.parts) {
    part = bespoke::with_last_step(arrays_, std::move(part), solver);
  }
  return runs;
}

std::vector<double> Samples::log_errors(const Runs& runs) const {
  Counts none;
  const LinearModel model =
      linear_model(runs.samples, &none, [&](Counts*, std::vector<LinearModel::Sample>& samples) {
        for (const SolverRun& part : runs.parts) {
          for (const double size : arrays_.root_mean_squares(residual(part.end(), part.samples))) {
            samples.push_back({size * size * numbers_in_sample_, {}, {}});
          }
        }
      });
  std::vector<double> errors;
  for (const auto& sample : model.samples) errors.push_back(log_error(sample.squared_error, size_));
  return errors;
}

std::vector<double> Samples::log_errors(const NsSolver& solver, const std::vector<int64_t>& samples,
                                        Counts* counts) const {
  return log_errors(run(solver, samples, counts, Keep::end));
}

LinearModel Samples::last_step(const Runs& runs) const {
  Counts none;
  return linear_model(runs.samples, &none, [&](Counts*, std::vector<LinearModel::Sample>& samples) {
    for (const SolverRun& part : runs.parts) {
      std::vector<Array> columns;
      for (const Array& column : part.columns()) {
        columns.push_back(arrays_.cast(column, part.x.front()));
      }
      const Array r = residual(part.end(), part.samples);
      const Array all = counting(arrays_.concatenate(columns), part.samples);
      for (const Matrix& gram : arrays_.grams(all, r)) samples.push_back(sample_of(gram));
    }
  });
}

Columns Samples::columns(const Runs& runs, const std::vector<Change>& changes,
                         Counts* counts) const {
  constexpr int64_t kSmall = int64_t{64} << 20;  // bytes: so much stays where it was computed
  Columns columns{runs.samples, {}, {}};
  columns.model = linear_model(
      runs.samples, counts, [&](Counts* spent, std::vector<LinearModel::Sample>& samples) {
        for (const SolverRun& part : runs.parts) {
          SolverRun run = part;
          run.samples = numbers_of(part.samples);
          Array all = columns_of_end(*field_, run, changes, options_.batch, spent);
          const Array r = residual(part.end(), part.samples);
          if (options_.decode) {
            all = arrays_.concatenate(decoded_columns(all, part.end(), part.samples, r));
          }
          all = counting(all, part.samples);
          for (const Matrix& gram : arrays_.grams(all, r)) samples.push_back(sample_of(gram));
          columns.parts.push_back(arrays_.byte_count(all) <= kSmall ? all : arrays_.kept(all));
        }
      });
  return columns;
}

// How the decoded sample changes, by differences that move the sample as little as others do.
std::vector<Array> Samples::decoded_columns(const Array& columns, const Array& x,
                                            const std::vector<int64_t>& rows,
                                            const Array& r) const {
  constexpr double kMove = 1e-2, kLeast = 1e-30;
  const auto count = static_cast<int64_t>(rows.size());
  const std::vector<double> of_x = arrays_.root_mean_squares(x);
  const std::vector<double> of_columns = arrays_.root_mean_squares(columns);
  const std::vector<double> ones(rows.size(), 1);
  std::vector<Array> decoded;
  for (int64_t begin = 0; begin < arrays_.count(columns); begin += count) {
    std::vector<double> sizes, inverse, minus;
    for (size_t s = 0; s < rows.size(); ++s) {
      sizes.push_back(kMove * of_x[s] /
                      std::max(of_columns[static_cast<size_t>(begin) + s], kLeast));
      inverse.push_back(1 / sizes.back());
      minus.push_back(-inverse.back());
    }
    const Array column = arrays_.rows(columns, begin, begin + count);
    const Array moved = residual(arrays_.combine_per_sample({ones, sizes}, {x, column}), rows);
    decoded.push_back(arrays_.combine_per_sample({inverse, minus}, {moved, r}));
  }
  return decoded;
}

LinearModel Samples::against(const Columns& columns, const Runs& runs) const {
  Counts none;
  LinearModel model =
      linear_model(columns.samples, &none, [&](Counts*, std::vector<LinearModel::Sample>& samples) {
        std::vector<Array> residuals;
        for (const SolverRun& part : runs.parts) {
          residuals.push_back(residual(part.end(), part.samples));
        }
        if (residuals.empty()) return;
        const Array all = arrays_.concatenate(residuals);
        const size_t count = own(columns.samples).size();
        int64_t row = 0;
        for (const Array& part : columns.parts) {
          const int64_t size = std::min<int64_t>(options_.batch, static_cast<int64_t>(count) - row);
          const Matrix products = arrays_.products(part, arrays_.rows(all, row, row + size));
          for (size_t s = 0; s < products.rows; ++s) {
            const auto begin =
                products.values.begin() + static_cast<std::ptrdiff_t>(s * products.columns);
            const auto end = begin + static_cast<std::ptrdiff_t>(products.columns) - 1;
            samples.push_back({*end, {begin, end}, {}});
          }
          row += size;
        }
      });
  for (size_t s = 0; s < model.samples.size(); ++s) {
    model.samples[s].gram = columns.model.samples[s].gram;
  }
  return model;
}

StepwiseFit::StepwiseFit(const Samples& samples, SolverShape shape,
                         const std::vector<int64_t>& subset, Counts* counts)
    : samples_(samples),
      shape_(std::move(shape)),
      subset_(subset),
      rows_(samples.own(subset)),
      counts_(counts) {
  if (!rows_.empty()) noise_ = samples_.arrays_.take(samples_.noise_, rows_);
}

LinearModel StepwiseFit::noise_against(double time) const {
  return against({noise_}, time, [](Counts*) {});
}

void StepwiseFit::start(double scale) {
  if (!rows_.empty()) state_ = start_ = samples_.arrays_.combine({scale}, {noise_}, noise_);
}

LinearModel StepwiseFit::evaluate(double time, double next_time) {
  const Arrays& arrays = samples_.arrays_;
  const size_t step = velocities_.size();
  const auto ask = [&](Counts* counts) {
    const Velocities velocities =
        evaluate_in_batches(*samples_.field_, state_, {time}, samples_.numbers_of(rows_),
                            question_at(shape_, step), samples_.options_.batch, 1, counts);
    for (const Array* one : {&velocities.velocity, &velocities.difference}) {
      if (*one && !arrays.is_finite(*one)) {
        throw Error(ErrorKind::diverged,
                    fmt::format("the model returned NaN or infinity at t = {}", time));
      }
    }
    velocities_.push_back(velocities.velocity);
    if (velocities.difference) differences_.push_back(velocities.difference);
  };
  return against({}, next_time, ask);
}

void StepwiseFit::advance(const std::vector<double>& coefficients) {
  Counts none;
  samples_.agree(&none, [&](Counts*) {
    if (rows_.empty()) return;
    state_ = samples_.arrays_.combine(coefficients, columns_of(start_, velocities_, differences_),
                                      start_);
    if (samples_.arrays_.is_finite(state_)) return;
    throw Error(ErrorKind::diverged, "a state of the fit is not finite");
  });
}

// Those of the step where there are no columns.
LinearModel StepwiseFit::against(const std::vector<Array>& columns, double time,
                                 const std::function<void(Counts*)>& before) const {
  const Arrays& arrays = samples_.arrays_;
  return samples_.linear_model(
      subset_, counts_, [&](Counts* counts, std::vector<LinearModel::Sample>& samples) {
        if (rows_.empty()) return;
        before(counts);
        std::vector<Array> same_type;
        for (const Array& column :
             columns.empty() ? columns_of(start_, velocities_, differences_) : columns) {
          same_type.push_back(arrays.cast(column, noise_));
        }
        const Array truth = arrays.cast(samples_.trajectories_->state_at(time, rows_), noise_);
        const Array residual = samples_.counting(arrays.combine({-1}, {truth}, truth), rows_);
        const Array all = samples_.counting(arrays.concatenate(same_type), rows_);
        for (const Matrix& gram : arrays.grams(all, residual)) samples.push_back(sample_of(gram));
      });
}

std::vector<int64_t> first_samples(const Samples& samples, int64_t count) {
  return counted(std::min(count, samples.count()));
}

std::vector<int64_t> first_samples(const Samples& samples) {
  return first_samples(samples, samples.count());
}

}  // namespace bespoke
