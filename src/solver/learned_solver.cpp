#include "bespoke/solver/learned_solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/path/schedule.h"
#include "bespoke/solver/named_solver.h"

namespace bespoke {

using namespace detail;

namespace {

using nlohmann::json;

// What tells the files of different tools apart.
constexpr char kTimeDeltas[] = "timedeltas", kTimeSteps[] = "best_t_steps",
               kAverage[] = "ema/shadow_params/0", kRawWeights[] = "dyweight_weights_raw",
               kHybridWeights[] = "hybrid_weights", kTimeScales[] = "t_scale",
               kSelected[] = "schedule";

// LD3 writes its times into a file of their own too (t_steps.pt).
constexpr char kLoneTensor[] = "";

const std::vector<std::string>& names_of_tables() {
  static const std::vector<std::string> names = {kTimeDeltas, kTimeSteps,     kAverage,
                                                 kRawWeights, kHybridWeights, kSelected};
  return names;
}

// Reads "[[1, 2], [3, 4]]" from its first bracket on; false where it is no such list.
class ListReader {
 public:
  ListReader(const std::string& text, size_t at) : text_(text), at_(at) {}

  bool read(NumberTable& table) {
    if (!read_level(table, 0)) return false;
    int64_t entries = 1;
    for (const int64_t size : table.shape) entries *= size;
    return entries == static_cast<int64_t>(table.values.size());
  }
  size_t end() const { return at_; }

 private:
  static constexpr size_t kMostNested = 3;
  static constexpr int64_t kUnknown = -1;

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  // All at one level: a row is no entry beside numbers.
  bool read_number(NumberTable& table, size_t level) {
    if (level_of_numbers_ == kMostNested) level_of_numbers_ = level;
    if (level_of_numbers_ != level) return false;
    size_t stop = at_;
    while (stop < text_.size() &&
           std::string("+-.0123456789eE").find(text_[stop]) != std::string::npos) {
      ++stop;
    }
    if (stop == at_) return false;
    try {
      table.values.push_back(parse_number(text_.substr(at_, stop - at_), "a list"));
    } catch (const Error&) {
      return false;
    }
    at_ = stop;
    return true;
  }

  bool read_level(NumberTable& table, size_t level) {
    if (level == kMostNested) return false;
    ++at_;  // the bracket
    int64_t entries = 0;
    for (;; ++entries) {
      skip_blanks();
      if (at_ >= text_.size()) return false;
      if (text_[at_] == ']') break;
      const bool good =
          text_[at_] == '[' ? read_level(table, level + 1) : read_number(table, level);
      if (!good) return false;
      skip_blanks();
      if (at_ < text_.size() && text_[at_] == ',') ++at_;
    }
    ++at_;
    if (table.shape.size() <= level) table.shape.resize(level + 1, kUnknown);
    if (table.shape[level] == kUnknown) table.shape[level] = entries;
    return table.shape[level] == entries;
  }

  const std::string& text_;
  size_t at_, level_of_numbers_ = kMostNested;
};

bool is_of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The name before a list, behind which stand only quotes, blanks, ':' or '=', and "tensor(".
std::string name_before(const std::string& text, size_t bracket) {
  size_t at = bracket;
  const auto skip = [&](const std::string& characters) {
    while (at > 0 && characters.find(text[at - 1]) != std::string::npos) --at;
  };
  const auto take = [&](const std::string& word) {
    if (at < word.size() || text.compare(at - word.size(), word.size(), word) != 0) return false;
    at -= word.size();
    return true;
  };
  skip(" \n\t");
  take("tensor(");
  skip(" \n\t");
  const bool in_pair = take(",");  // ('name', tensor([...]))
  if (!in_pair && !take("=") && !take(":")) return "";
  if (in_pair && (at == 0 || text[at - 1] != '\'')) return "";
  skip(" '\"");
  const size_t stop = at;
  while (at > 0 && is_of_a_name(text[at - 1])) --at;
  return text.substr(at, stop - at);
}

const NumberTable* find_table(const NamedTables& tables, const std::string& name) {
  for (const auto& [key, table] : tables) {
    if (key == name) return &table;
  }
  return nullptr;
}

std::vector<double> flipped(const std::vector<double>& noise_times) {
  std::vector<double> times;
  for (const double t : noise_times) times.push_back(std::clamp(1 - t, 0., 1.));
  return times;
}

SchedulePtr schedule_of(const LearnedSolverFacts& facts) {
  return facts.schedule.is_string() ? make_schedule(facts.schedule.get<std::string>())
                                    : schedule_from_json(facts.schedule);
}

// Where sigma / alpha is so much; the noise or the data where it never is.
double time_at_sigma(const Schedule& schedule, double sigma) {
  if (sigma >= std::exp(-schedule.lambda(0))) return 0;
  return sigma > 0 ? schedule.time_at_lambda(-std::log(sigma)) : 1;
}

std::vector<double> times_at_sigmas(const Schedule& schedule, const std::vector<double>& sigmas) {
  std::vector<double> times;
  for (const double sigma : sigmas) times.push_back(time_at_sigma(schedule, sigma));
  return times;
}

void need_method(const LearnedSolverFacts& facts, const std::string& source) {
  if (!facts.method.empty()) return;
  throw bad_input("{} holds times alone; say with --method what to do with them, such as ipndm",
                  source);
}

void check_sigmas(const LearnedSolverFacts& facts, size_t steps, const std::string& source) {
  if (facts.sigmas.size() == steps + 1) return;
  throw bad_input("{} has {} steps and does not say when; give its {} sigmas with --sigmas", source,
                  steps, steps + 1);
}

json with_facts(const LearnedSolverFacts& facts, const std::string& name) {
  return {{"schedule", facts.schedule}, {"prediction", facts.prediction}, {"name", name}};
}

bool is_flow_path(const LearnedSolverFacts& facts) {
  return facts.schedule.is_string() && facts.schedule.get<std::string>().rfind("fm-ot", 0) == 0;
}

// Time steps and, under the diagonal, weights of earlier predictions; the newest has what is
// missing to 1. Over velocities of flows, over data predictions of all else, which begin at 0.999.
json neural_solver(const NumberTable& deltas, const NumberTable& coefficients, bool flow,
                   const std::string& source) {
  constexpr double kFirstOfDiffusion = 1e-3, kPublishedDeltas = 5e-3;
  const size_t steps = deltas.values.size();
  if (deltas.shape.size() != 1 || coefficients.values.size() != steps * steps) {
    throw bad_input("{}: {} timedeltas need as many rows of as many coeffs", source, steps);
  }
  std::vector<double> times = {flow ? 0 : kFirstOfDiffusion};
  for (const double delta : deltas.values) times.push_back(times.back() + delta);
  // Published with four digits.
  if (times.back() > 1 && times.back() < 1 + kPublishedDeltas) times.back() = 1;
  json weights = json::array();
  for (size_t i = 0; i < steps; ++i) {
    std::vector<double> row(
        coefficients.values.begin() + static_cast<std::ptrdiff_t>(i * steps),
        coefficients.values.begin() + static_cast<std::ptrdiff_t>(i * steps + i));
    double rest = 1;
    for (const double weight : row) rest -= weight;
    row.push_back(rest);
    weights.push_back(row);
  }
  return {{"times", times},
          {"weights", weights},
          {"over", flow ? "velocity" : "data"},
          {"start_scale", 1}};
}

json describe_neural_solvers(const NamedTables& tables, const LearnedSolverFacts& facts,
                             const std::string& source) {
  json description = with_facts(facts, "neural-solver");
  description["solvers"] = json::array();
  const NumberTable* deltas = nullptr;
  for (const auto& [name, table] : tables) {
    if (name == kTimeDeltas) deltas = &table;
    const bool weights = name == "coeffs" || name == "solver_coeffs";
    if (!weights || deltas == nullptr) continue;
    description["solvers"].push_back(neural_solver(*deltas, table, is_flow_path(facts), source));
    deltas = nullptr;
  }
  if (description["solvers"].empty()) {
    throw bad_input("{}: has timedeltas without coeffs behind them", source);
  }
  return description;
}

// The solver's times, and behind them the times that the network is told. Of networks that are told
// sigma (EDM's), both are sigmas, and it is given x / alpha.
json describe_ld3(const NumberTable& both, const LearnedSolverFacts& facts,
                  const std::string& source) {
  if (both.shape.size() != 1 || both.values.size() % 2 != 0 || both.values.size() < 4) {
    throw bad_input("{}: its times must be two lists, one behind the other", source);
  }
  need_method(facts, source);
  const auto middle = both.values.begin() + static_cast<std::ptrdiff_t>(both.values.size() / 2);
  json description = with_facts(facts, "ld3");
  description["method"] = facts.method;
  const std::vector<double> own(both.values.begin(), middle);
  const std::vector<double> told(middle, both.values.end() - 1);
  const bool of_sigmas = *std::max_element(own.begin(), own.end()) > 1;
  if (of_sigmas) {
    const SchedulePtr schedule = schedule_of(facts);
    description["times"] = times_at_sigmas(*schedule, own);
    description["network_times"] = times_at_sigmas(*schedule, told);
    description["space"] = "sigma";
  } else {
    description["times"] = flipped(own);
    description["network_times"] = flipped(told);
  }
  const bool of_data = facts.method.rfind("dpm++", 0) == 0 || facts.method.rfind("unipc", 0) == 0;
  description["held"] = of_data ? "data" : "noise";
  if (of_data && entry_of(SolverName::parse(facts.method)).can_lower_order) {
    description["lower_order_final"] = true;
  }
  return description;
}

// A step of DPM-Solver++ to the last of the times, as GAS writes it: factors of x_i and of the data
// predictions, the newest first, with `added` to its coefficients c_1, c_2, ...
struct GasStep {
  double state;
  std::vector<double> data;
};

GasStep gas_step(const Schedule& schedule, const std::vector<double>& times,
                 const std::vector<double>& added) {
  const size_t last = times.size() - 1;
  const auto lambda = [&](size_t back) { return schedule.lambda(times[last - back]); };
  const double h = lambda(0) - lambda(1);
  const double alpha = schedule.alpha(times[last]), phi1 = std::expm1(-h);
  GasStep step = {schedule.sigma(times[last]) / schedule.sigma(times[last - 1]),
                  {-(alpha * phi1 + added[0])}};
  if (added.size() == 1) return step;
  const double r0 = (lambda(1) - lambda(2)) / h;
  if (added.size() == 2) {
    const double slope = (0.5 * alpha * phi1 + added[1]) / r0;
    step.data[0] -= slope;
    step.data.push_back(slope);
    return step;
  }
  const double r1 = (lambda(2) - lambda(3)) / h, both = r0 + r1;
  const double phi2 = phi1 / h + 1, phi3 = phi2 / h - 0.5;
  const double c2 = alpha * phi2 + added[1], c3 = alpha * phi3 + added[2];
  const double newer = (c2 * (1 + r0 / both) - c3 / both) / r0;  // of the last two predictions'
  const double older = (c3 / both - c2 * r0 / both) / r1;        // difference, and of those before
  step.data[0] += newer;
  step.data.push_back(older - newer);
  step.data.push_back(-older);
  step.data.insert(step.data.end(), added.begin() + 3, added.end());
  return step;
}

// The parameters in their order: logits of the times, shifts of the network's times, then c_1, a_1,
// c_2, a_2, ...
struct GasParameters {
  std::vector<double> logits, couples;
  std::vector<std::vector<double>> c, a;
};

GasParameters gas_parameters(const NamedTables& tables, const std::string& source) {
  const std::string prefix = "ema/shadow_params/";
  std::vector<const NumberTable*> list;
  while (const NumberTable* table = find_table(tables, prefix + std::to_string(list.size()))) {
    list.push_back(table);
  }
  GasParameters parameters;
  if (list.size() >= 4) {
    parameters.logits = list[0]->values;
    parameters.couples = list[1]->values;
  }
  const size_t steps = parameters.couples.size();
  for (size_t i = 2; i + 1 < list.size(); i += 2) {
    if (list[i]->values.size() != steps || list[i + 1]->values.size() != steps) break;
    if (list[i]->shape.size() != 1) break;  // a discriminator's
    parameters.c.push_back(list[i]->values);
    parameters.a.push_back(list[i + 1]->values);
  }
  if (parameters.c.empty() || parameters.logits.size() + 1 != steps ||
      parameters.c.size() > steps) {
    throw bad_input(
        "{}: its ema/shadow_params are not GAS' n - 1 logits, n shifts and two lists of n for each "
        "order",
        source);
  }
  return parameters;
}

std::vector<double> gas_times(const GasParameters& gas, double end) {
  constexpr double kOffset = 1e-5;
  std::vector<double> rising = {end};
  double product = 1;
  for (const double logit : gas.logits) {
    product *= 1 / (1 + std::exp(-logit)) * (1 - 2 * kOffset) + kOffset;
    rising.push_back((1 - product) * (1 - end) + end);
  }
  rising.push_back(1);
  return flipped({rising.rbegin(), rising.rend()});
}

json describe_gas(const NamedTables& tables, const LearnedSolverFacts& facts,
                  const std::string& source) {
  const GasParameters gas = gas_parameters(tables, source);
  const SchedulePtr schedule = schedule_of(facts);
  const auto times = gas_times(gas, facts.end);
  std::vector<double> network_times;
  json c = json::array(), d = json::array();
  for (size_t i = 0; i < gas.couples.size(); ++i) {
    network_times.push_back(std::clamp(times[i] - gas.couples[i], 0., 1.));
    const size_t order = std::min(i + 1, gas.c.size());
    const std::vector<double> so_far(times.begin(),
                                     times.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    std::vector<double> added;
    for (size_t k = 0; k < order; ++k) added.push_back(gas.c[k][i]);
    const GasStep step = gas_step(*schedule, so_far, added);
    std::vector<double> states(i + 1, 0), data(i + 1, 0);
    states[i] = step.state;
    for (size_t k = 0; k < order; ++k) {
      states[i - k] += gas.a[k][i];
      data[i - k] = step.data[k];
    }
    c.push_back(states);
    d.push_back(data);
  }
  json description = with_facts(facts, "gas");
  description.update({{"times", times},
                      {"network_times", network_times},
                      {"over", "data"},
                      {"held", "noise"},
                      {"c", c},
                      {"d", d}});
  return description;
}

// x += (sigma' - sigma) sum_j w_j v_j, whose weights need not sum to 1: sigma then moves by their
// sum alone. The network is told sigma times a scale.
json describe_dyweight(const NamedTables& tables, const LearnedSolverFacts& facts,
                       const std::string& source) {
  const NumberTable& weights = *find_table(tables, kRawWeights);
  const NumberTable* scales = find_table(tables, "dyweight_t_scales");
  const size_t steps = scales == nullptr ? 0 : scales->values.size();
  if (steps == 0 || weights.values.size() != steps * steps) {
    throw bad_input(
        "{}: dyweight_weights_raw needs as many rows and columns as there are "
        "dyweight_t_scales",
        source);
  }
  check_sigmas(facts, steps, source);
  std::vector<double> times;
  json c = json::array(), d = json::array();
  double sigma = facts.sigmas[0];
  for (size_t i = 0; i < steps; ++i) {
    times.push_back(std::clamp(1 - scales->values[i] * sigma, 0., 1.));
    std::vector<double> states(i + 1, 0), velocities;
    states[i] = 1;
    double sum = 0;
    for (size_t j = 0; j <= i; ++j) {
      const double weight = weights.values[i * steps + j];
      sum += weight;
      velocities.push_back((sigma - facts.sigmas[i + 1]) * weight);
    }
    sigma += sum * (facts.sigmas[i + 1] - sigma);
    c.push_back(states);
    d.push_back(velocities);
  }
  times.push_back(std::max(times.back(), 1 - facts.sigmas.back()));
  json description = with_facts(facts, "dyweight");
  description.update(
      {{"times", times}, {"over", "velocity"}, {"c", c}, {"d", d}, {"start_scale", 1}});
  return description;
}

// What DyWeight learnt for networks that are told sigma.
struct PixelDyWeight {
  size_t steps;
  const std::vector<double>& weights;  // rows of `steps`
  const std::vector<double>& scales;   // of what the network is told
  // Where there is a scale less than steps, the first slope is y / sqrt(1 + sigma^2), for nothing.
  bool free_step() const { return scales.size() < steps; }
  double weight(size_t i, size_t j) const { return weights[i * steps + j]; }
};

PixelDyWeight pixel_dyweight(const NamedTables& tables, const LearnedSolverFacts& facts,
                             const std::string& source) {
  const std::vector<double>& weights = find_table(tables, kHybridWeights)->values;
  const NumberTable* scales = find_table(tables, kTimeScales);
  const size_t scale_count = scales == nullptr ? 0 : scales->values.size();
  const size_t steps = scale_count * scale_count == weights.size() ? scale_count : scale_count + 1;
  if (scale_count == 0 || weights.size() != steps * steps) {
    throw bad_input("{}: hybrid_weights of n rows and columns need n or n - 1 values of t_scale",
                    source);
  }
  check_sigmas(facts, steps, source);
  return {steps, weights, scales->values};
}

// y += (sigma' - sigma) sum_j w_j d_j with d = (y - D) / sigma, on y = x / alpha, where sigma moves
// by the sum of the weights alone and the network is told it times a scale.
json describe_pixel_dyweight(const NamedTables& tables, const LearnedSolverFacts& facts,
                             const std::string& source) {
  const PixelDyWeight learnt = pixel_dyweight(tables, facts, source);
  const SchedulePtr schedule = schedule_of(facts);
  double sigma = facts.sigmas[0], start = sigma, free_slope = 0;  // of standard normal noise
  std::vector<double> times, sigmas;
  json c = json::array(), d = json::array();
  for (size_t i = 0; i < learnt.steps; ++i) {
    const double step = facts.sigmas[i + 1] - sigma;
    double sum = 0;
    for (size_t j = 0; j <= i; ++j) sum += learnt.weight(i, j);
    if (learnt.free_step() && i == 0) {
      free_slope = start / std::sqrt(1 + sigma * sigma);
      start += step * sum * free_slope;
    } else {
      const size_t before = i - times.size();  // steps without the network
      times.push_back(time_at_sigma(*schedule, std::abs(learnt.scales[times.size()] * sigma)));
      sigmas.push_back(sigma);
      std::vector<double> states(times.size(), 0), data(times.size(), 0);
      states.back() = 1;
      if (learnt.free_step()) states[0] += step * learnt.weight(i, 0) * free_slope / start;
      for (size_t j = 0; j < times.size(); ++j) {
        data[j] = -step * learnt.weight(i, j + before) / sigmas[j];
        states[j] -= data[j];
      }
      c.push_back(states);
      d.push_back(data);
    }
    sigma += sum * step;
  }
  times.push_back(1);
  json description = with_facts(facts, "dyweight");
  description.update({{"times", times}, {"over", "data"}, {"space", "sigma"}, {"c", c}, {"d", d}});
  description["start_scale"] = start;
  return description;
}

// The schedules that GITS chose, falling sigmas, as it prints them.
json describe_gits(const NamedTables& tables, const LearnedSolverFacts& facts,
                   const std::string& source) {
  need_method(facts, source);
  const SchedulePtr schedule = schedule_of(facts);
  json description = with_facts(facts, "gits");
  description["solvers"] = json::array();
  for (const auto& [name, table] : tables) {
    if (name != kSelected) continue;
    description["solvers"].push_back(
        {{"times", times_at_sigmas(*schedule, table.values)}, {"method", facts.method}});
  }
  return description;
}

}  // namespace

NamedTables named_tables(const std::string& text) {
  NamedTables tables;
  for (size_t at = 0; at < text.size();) {
    at = text.find('[', at);
    if (at == std::string::npos) break;
    const std::string name = name_before(text, at);
    NumberTable table;
    ListReader reader(text, at);
    const bool good = !name.empty() && reader.read(table);
    if (good) tables.emplace_back(name, table);
    at = good ? reader.end() : at + 1;
  }
  return tables;
}

bool is_learned_solver(const NamedTables& tables) {
  return std::any_of(tables.begin(), tables.end(), [](const auto& entry) {
    const auto& names = names_of_tables();
    return std::find(names.begin(), names.end(), entry.first) != names.end();
  });
}

nlohmann::json describe_learned_solver(const NamedTables& tables, const LearnedSolverFacts& facts,
                                       const std::string& source) {
  if (find_table(tables, kTimeDeltas) != nullptr) {
    return describe_neural_solvers(tables, facts, source);
  }
  for (const char* name : {kTimeSteps, kLoneTensor}) {
    if (const NumberTable* both = find_table(tables, name)) {
      return describe_ld3(*both, facts, source);
    }
  }
  if (find_table(tables, kAverage) != nullptr) return describe_gas(tables, facts, source);
  if (find_table(tables, kRawWeights) != nullptr) return describe_dyweight(tables, facts, source);
  if (find_table(tables, kHybridWeights) != nullptr) {
    return describe_pixel_dyweight(tables, facts, source);
  }
  if (find_table(tables, kSelected) != nullptr) return describe_gits(tables, facts, source);
  throw bad_input(
      "{} holds no solver that is known: NeuralSolver has timedeltas and coeffs, LD3 best_t_steps, "
      "GAS ema, DyWeight dyweight_weights_raw or hybrid_weights and GITS a selected time schedule; "
      "describe others as docs/reference/solver-file.md has it",
      source);
}

}  // namespace bespoke
