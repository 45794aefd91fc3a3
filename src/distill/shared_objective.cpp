#include "bespoke/distill/shared_objective.h"

#include <cstring>
#include <functional>
#include <utility>

namespace bespoke {

namespace {

// Numbers one after the other, as bytes.
class Written {
 public:
  void add(double value) { values_.push_back(value); }
  void add(const std::vector<double>& values) {
    values_.insert(values_.end(), values.begin(), values.end());
  }
  std::string bytes() const {
    return {reinterpret_cast<const char*>(values_.data()), values_.size() * sizeof(double)};
  }

 private:
  std::vector<double> values_;
};

class Read {
 public:
  explicit Read(const std::string& bytes) : values_(bytes.size() / sizeof(double)) {
    std::memcpy(values_.data(), bytes.data(), values_.size() * sizeof(double));
  }
  double next() { return values_[at_++]; }
  int64_t next_integer() { return static_cast<int64_t>(next()); }
  std::vector<double> next(size_t count) {
    at_ += count;
    return {values_.begin() + static_cast<std::ptrdiff_t>(at_ - count),
            values_.begin() + static_cast<std::ptrdiff_t>(at_)};
  }

 private:
  std::vector<double> values_;
  size_t at_ = 0;
};

// The samples that a member looks after: every size-th.
std::vector<int64_t> part_of(const std::vector<int64_t>& subset, const Team& team) {
  std::vector<int64_t> part;
  for (auto i = static_cast<size_t>(team.rank()); i < subset.size();
       i += static_cast<size_t>(team.size())) {
    part.push_back(subset[i]);
  }
  return part;
}

// Parts of samples, by rank, in the order of the samples.
template <class Value>
std::vector<Value> merged(std::vector<std::vector<Value>> parts) {
  size_t total = 0;
  for (const auto& part : parts) total += part.size();
  std::vector<Value> all;
  for (size_t i = 0; i < total; ++i) {
    all.push_back(std::move(parts[i % parts.size()][i / parts.size()]));
  }
  return all;
}

// Does a part of some work and exchanges what it counted and wrote; counts get those of all.
std::vector<Read> shared_work(Team& team, Counts* counts,
                              const std::function<void(Counts*, Written&)>& work) {
  const auto all = exchange_work(team, [&] {
    Counts spent;
    Written written;
    work(&spent, written);
    Written message;
    message.add(static_cast<double>(spent.forwards));
    message.add(static_cast<double>(spent.vjps));
    return message.bytes() + written.bytes();
  });
  std::vector<Read> answers;
  for (const std::string& bytes : all) {
    answers.emplace_back(bytes);
    counts->forwards += answers.back().next_integer();
    counts->vjps += answers.back().next_integer();
  }
  return answers;
}

void write(const LinearModel& model, Written& written) {
  written.add(static_cast<double>(model.samples.size()));
  if (model.samples.empty()) return;
  written.add(static_cast<double>(model.columns()));
  written.add(model.size);
  written.add(model.floor);
  for (const auto& sample : model.samples) {
    written.add(sample.squared_error);
    written.add(sample.products);
    written.add(sample.gram.values);
  }
}

// The samples of one member; size and floor are set where it has any.
std::vector<LinearModel::Sample> read_samples(Read& read, LinearModel& model) {
  std::vector<LinearModel::Sample> samples(static_cast<size_t>(read.next_integer()));
  if (samples.empty()) return samples;
  const auto columns = static_cast<size_t>(read.next_integer());
  model.size = read.next();
  model.floor = read.next();
  for (auto& sample : samples) {
    sample.squared_error = read.next();
    sample.products = read.next(columns);
    sample.gram = Matrix(columns, columns);
    sample.gram.values = read.next(columns * columns);
  }
  return samples;
}

// A linear model of all samples from those of the members' parts.
LinearModel shared_model(Team& team, Counts* counts,
                         const std::function<LinearModel(Counts*)>& part) {
  auto answers = shared_work(team, counts,
                             [&](Counts* spent, Written& written) { write(part(spent), written); });
  LinearModel model;
  std::vector<std::vector<LinearModel::Sample>> parts;
  for (Read& answer : answers) parts.push_back(read_samples(answer, model));
  model.samples = merged(std::move(parts));
  return model;
}

// A member that has no sample of a small subset still takes part in what all exchange.
class SharedRun : public StepwiseRun {
 public:
  SharedRun(const Objective& whole, Team& team, const SolverShape& shape,
            const std::vector<int64_t>& subset, Counts* counts)
      : team_(team), counts_(counts) {
    const auto part = part_of(subset, team);
    shared_work(team_, counts_, [&](Counts*, Written&) {
      if (!part.empty()) run_ = whole.begin_run(shape, part, &spent_);
    });
  }

  LinearModel noise_against(double time) override {
    return answered([&] { return run_->noise_against(time); });
  }
  void start(double scale) override {
    if (run_) run_->start(scale);
  }
  LinearModel evaluate(double time, double next_time) override {
    return answered([&] { return run_->evaluate(time, next_time); });
  }
  void advance(const std::vector<double>& coefficients) override {
    shared_work(team_, counts_, [&](Counts*, Written&) {
      if (run_) run_->advance(coefficients);
    });
  }

 private:
  LinearModel answered(const std::function<LinearModel()>& question) {
    return shared_model(team_, counts_, [&](Counts* spent) {
      spent_ = {};
      LinearModel model = run_ ? question() : LinearModel();
      *spent = spent_;
      return model;
    });
  }

  Team& team_;
  Counts* counts_;
  Counts spent_;  // what run_ counts
  std::unique_ptr<StepwiseRun> run_;
};

class SharedLinearisation : public Linearisation {
 public:
  SharedLinearisation(Team& team, std::unique_ptr<Linearisation> part, LinearModel model)
      : team_(team), part_(std::move(part)), model_(std::move(model)) {}

  const LinearModel& model() const override { return model_; }
  LinearModel against(const NsSolver& solver, Counts* counts) const override {
    return shared_model(team_, counts, [&](Counts* spent) {
      return part_ ? part_->against(solver, spent) : LinearModel();
    });
  }

 private:
  Team& team_;
  std::unique_ptr<Linearisation> part_;  // null where a member has no sample
  LinearModel model_;
};

}  // namespace

std::vector<double> SharedObjective::log_errors(const NsSolver& solver,
                                                const std::vector<int64_t>& subset,
                                                Counts* counts) const {
  const auto part = part_of(subset, team_);
  auto answers = shared_work(team_, counts, [&](Counts* spent, Written& written) {
    written.add(static_cast<double>(part.size()));
    if (!part.empty()) written.add(whole_.log_errors(solver, part, spent));
  });
  std::vector<std::vector<double>> parts;
  for (Read& answer : answers) {
    parts.push_back(answer.next(static_cast<size_t>(answer.next_integer())));
  }
  return merged(std::move(parts));
}

LinearModel SharedObjective::last_step(const NsSolver& solver, const std::vector<int64_t>& subset,
                                       Counts* counts) const {
  const auto part = part_of(subset, team_);
  return shared_model(team_, counts, [&](Counts* spent) {
    return part.empty() ? LinearModel() : whole_.last_step(solver, part, spent);
  });
}

std::unique_ptr<StepwiseRun> SharedObjective::begin_run(const SolverShape& shape,
                                                        const std::vector<int64_t>& subset,
                                                        Counts* counts) const {
  return std::make_unique<SharedRun>(whole_, team_, shape, subset, counts);
}

std::unique_ptr<Linearisation> SharedObjective::linearise(const NsSolver& solver,
                                                          const std::vector<int64_t>& subset,
                                                          const std::vector<Change>& changes,
                                                          Counts* counts) const {
  const auto samples = part_of(subset, team_);
  std::unique_ptr<Linearisation> part;
  LinearModel model = shared_model(team_, counts, [&](Counts* spent) {
    if (samples.empty()) return LinearModel();
    part = whole_.linearise(solver, samples, changes, spent);
    return part->model();
  });
  return std::make_unique<SharedLinearisation>(team_, std::move(part), std::move(model));
}

LossGradient SharedObjective::loss_gradient(const NsSolver& solver,
                                            const std::vector<int64_t>& subset,
                                            Counts* counts) const {
  const auto part = part_of(subset, team_);
  auto answers = shared_work(team_, counts, [&](Counts* spent, Written& written) {
    const auto weight = static_cast<double>(part.size()) / static_cast<double>(subset.size());
    written.add(weight);
    if (part.empty()) return;
    const LossGradient at = whole_.loss_gradient(solver, part, spent);
    written.add(static_cast<double>(at.gradient.size()));
    written.add(at.loss);
    written.add(at.gradient);
  });
  LossGradient all;
  for (Read& answer : answers) {
    const double weight = answer.next();
    if (weight == 0) continue;
    const auto size = static_cast<size_t>(answer.next_integer());
    all.loss += weight * answer.next();
    all.gradient.resize(size, 0);
    for (double& value : all.gradient) value += weight * answer.next();
  }
  return all;
}

}  // namespace bespoke
