#include "bespoke/solver/imported_solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"
#include "bespoke/path/network_input.h"
#include "bespoke/path/prediction.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/grid.h"
#include "bespoke/solver/lowering.h"
#include "bespoke/solver/named_solver.h"
#include "bespoke/solver/trace.h"

namespace bespoke {

using namespace detail;

namespace {

using Rows = std::vector<std::vector<double>>;
using nlohmann::json;

// f in terms of the data and noise predictions.
LinearForm term_of(Term term, const SchedulePoint& point, bool flow, const Evaluation& evaluation) {
  switch (term) {
    case Term::velocity:
      return evaluation.u;
    case Term::slope:
      return flow ? evaluation.noise - evaluation.data : evaluation.noise;
    default: {
      const auto parts = output_in_terms_of_data_and_noise(static_cast<Prediction>(term), point);
      return parts.data * evaluation.data + parts.noise * evaluation.noise;
    }
  }
}

void check_count(size_t rows, size_t needed, const std::string& what) {
  if (rows == needed) return;
  throw bad_input("{} rows of {}, {} steps need {}", rows, what, needed, needed);
}

void check_scale(const Schedule& schedule, double time) {
  if (schedule.alpha(time) > 0) return;
  throw bad_input("states x / alpha are infinite at t = {}, where alpha = 0; begin later", time);
}

NsSolver scaled_to_its_start(NsSolver solver, const Schedule& schedule) {
  solver.start_scale = schedule.sigma(solver.times.front()) / schedule.sigma(0);
  return solver;
}

// The step from one point to the next with the noise held at `noise`:
//   (alpha' / alpha) x + (sigma' - sigma alpha' / alpha) E,
// which is alpha' D + sigma' E where alpha = 0 and E is that of the point itself.
LinearForm noise_step(const SchedulePoint& from, const SchedulePoint& to, const LinearForm& x,
                      const LinearForm& noise, const Evaluation& point, bool is_own) {
  if (is_own) return to.alpha * point.data + to.sigma * point.noise;
  if (from.alpha == 0) {
    throw bad_input(
        "where alpha = 0 a step has no noise prediction but its own to weigh; give the first "
        "row the weight 1, or begin later");
  }
  const double ratio = to.alpha / from.alpha;
  return ratio * x + (to.sigma - from.sigma * ratio) * noise;
}

LinearForm data_step(const SchedulePoint& from, const SchedulePoint& to, const LinearForm& x,
                     const LinearForm& data) {
  const double ratio = to.sigma / from.sigma;
  return ratio * x + (to.alpha - from.alpha * ratio) * data;
}

LinearForm weighted(const std::vector<LinearForm>& terms, const std::vector<double>& row,
                    size_t step) {
  if (row.empty() || row.size() > terms.size()) {
    throw bad_input("weights[{}] has {} entries, it needs 1 to {}", step, row.size(), terms.size());
  }
  LinearForm sum;
  for (size_t k = 0; k < row.size(); ++k) sum += row[k] * terms[terms.size() - row.size() + k];
  return sum;
}

bool is_newest_alone(const std::vector<double>& row) {
  return row.back() == 1 &&
         std::all_of(row.begin(), row.end() - 1, [](double w) { return w == 0; });
}

// The times of a description, given in one of three ways.
std::vector<double> read_times(const json& object, const Schedule& schedule,
                               const std::string& where) {
  const auto list = [&](const char* key) {
    require(object[key].is_array(), where + "." + key, "must be a list of numbers");
    return number_list(object[key], where + "." + key, object[key].size());
  };
  const int given = static_cast<int>(object.contains("times")) +
                    static_cast<int>(object.contains("sigmas")) +
                    static_cast<int>(object.contains("timesteps"));
  require(given == 1, where, "needs one of \"times\", \"sigmas\" and \"timesteps\"");
  std::vector<double> times;
  if (object.contains("sigmas")) {
    times = times_of_sigmas(schedule, list("sigmas"));
  } else if (object.contains("timesteps")) {
    times = times_of_timesteps(schedule, list("timesteps"));
  } else {
    times = list("times");
  }
  require(times.size() >= 2, where, "needs at least one step, from one time to another");
  return times;
}

// Rows of numbers: row i has i + 1 entries where they are `full`.
Rows read_rows(const json& list, const std::string& where, bool full) {
  require(list.is_array(), where, "must be a list of rows");
  Rows rows;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", where, i);
    require(list[i].is_array(), place, "must be a row of numbers");
    rows.push_back(number_list(list[i], place, full ? i + 1 : list[i].size()));
  }
  return rows;
}

// Canonical coefficients are update rules in which x_0 alone counts.
std::vector<UpdateRule> rules_of(const json& object, const std::string& where) {
  const bool canonical = object.contains("a");
  const Rows d = read_rows(object[canonical ? "b" : "d"], where + (canonical ? ".b" : ".d"), true);
  std::vector<UpdateRule> rules;
  if (canonical) {
    const auto a = number_list(object["a"], where + ".a", d.size());
    for (size_t i = 0; i < d.size(); ++i) {
      rules.push_back({std::vector<double>(i + 1, 0), d[i]});
      rules.back().c[0] = a[i];
    }
    return rules;
  }
  const Rows c = read_rows(object["c"], where + ".c", true);
  check_count(c.size(), d.size(), "c");
  for (size_t i = 0; i < d.size(); ++i) rules.push_back({c[i], d[i]});
  return rules;
}

// In the space of sigmas the scale is of standard normal noise, as SigmaSolver has it.
double start_scale_of(const json& object, const NsSolver& solver, StateSpace space,
                      const Schedule& schedule, const std::string& where) {
  if (!object.contains("start_scale")) return solver.start_scale;
  const double scale = number(object["start_scale"], where + ".start_scale");
  if (space == StateSpace::path || is_flow(schedule)) return scale;
  return scale * schedule.alpha(solver.times.front()) / schedule.source_std();
}

const std::vector<std::string>& keys_of_a_solver() {
  static const std::vector<std::string> keys = {"nfe",         "times",
                                                "sigmas",      "timesteps",
                                                "method",      "weights",
                                                "a",           "b",
                                                "c",           "d",
                                                "over",        "space",
                                                "start_scale", "network_times",
                                                "held",        "lower_order_final"};
  return keys;
}

Term read_term(const json& object, const char* key, Prediction prediction,
               const std::string& where) {
  if (!object.contains(key)) return static_cast<Term>(prediction);
  const std::string place = where + "." + key;
  return static_cast<Term>(choice(term_names(), text_value(object[key], place), "term", place));
}

// A term as an affine function of the state and the velocity there.
Affine<double> term_from_velocity(Term term, const SchedulePoint& point, bool flow) {
  const Affine<double> data = data_from(Prediction::velocity, point);
  const Affine<double> noise = noise_from(Prediction::velocity, point);
  const auto sum = [&](double of_data, double of_noise) -> Affine<double> {
    return {of_data * data.state + of_noise * noise.state,
            of_data * data.output + of_noise * noise.output};
  };
  if (term == Term::slope) return sum(flow ? -1 : 0, 1);
  const auto parts = output_in_terms_of_data_and_noise(static_cast<Prediction>(term), point);
  return sum(parts.data, parts.noise);
}

// The velocity as an affine function of the state and a term.
Affine<double> velocity_from_term(Term term, const SchedulePoint& point, bool flow) {
  const Affine<double> inverse = term_from_velocity(term, point, flow);
  return {-inverse.state / inverse.output, 1 / inverse.output};
}

NsSolver read_imported_solver(const json& object, const FieldDescription& field,
                              const std::string& where) {
  const Schedule& schedule = *field.schedule;
  const auto times = read_times(object, schedule, where);
  const bool method = object.contains("method"), weights = object.contains("weights");
  const bool canonical = object.contains("a") && object.contains("b");
  const bool steps = object.contains("c") && object.contains("d");
  const auto given = [&](const char* key) { return static_cast<int>(object.contains(key)); };
  require(static_cast<int>(method) + static_cast<int>(weights) + static_cast<int>(canonical) +
                      static_cast<int>(steps) ==
                  1 &&
              given("a") == given("b") && given("c") == given("d"),
          where, "needs one of \"method\", \"weights\", \"a\" with \"b\", and \"c\" with \"d\"");
  const json lowered = object.value("lower_order_final", json(false));
  require(lowered.is_boolean(), where + ".lower_order_final", "must be true or false");
  const bool lower_order_final = lowered.get<bool>();
  require(method || !lower_order_final, where, "\"lower_order_final\" goes with a method");
  require(!method || given("over") + given("start_scale") == 0, where,
          "\"over\" and \"start_scale\" go with coefficients, not with a method");
  const Term term = read_term(object, "over", field.prediction, where);
  StateSpace space = StateSpace::path;
  if (object.contains("space")) {
    space = static_cast<StateSpace>(choice({"path", "sigma"},
                                           text_value(object["space"], where + ".space"), "space",
                                           where + ".space"));
  }
  require(canonical || steps || given("network_times") == 1 || space == StateSpace::path, where,
          "a method and \"weights\" need no \"space\", unless there are \"network_times\"");
  NsSolver solver;
  if (method) {
    solver = on_times(text_value(object["method"], where + ".method"), times, field.schedule,
                      lower_order_final);
  } else if (weights) {
    solver = from_weights(times, read_rows(object["weights"], where + ".weights", false), term,
                          schedule);
  } else {
    solver = from_steps(times, rules_of(object, where), term, space, schedule);
  }
  if (!method) solver.start_scale = start_scale_of(object, solver, space, schedule, where);
  require(object.contains("network_times") || !object.contains("held"), where,
          "\"held\" goes with \"network_times\"");
  if (object.contains("network_times")) {
    const auto network_times = number_list(object["network_times"], where + ".network_times",
                                           static_cast<size_t>(solver.nfe()));
    solver = with_network_times(
        solver, network_times, read_term(object, "held", field.prediction, where), space, schedule);
  }
  solver.validate();
  if (object.contains("nfe")) {
    const int64_t nfe = whole_number(object["nfe"], where + ".nfe", 1, kMostEvaluations);
    require(nfe == solver.nfe(), where,
            fmt::format("says {} evaluations, its numbers are of {}", nfe, solver.nfe()));
  }
  return solver;
}

FieldDescription read_imported_field(const json& document, const std::string& source) {
  FieldDescription field;
  const json& schedule = document["schedule"];
  field.schedule = schedule.is_string() ? make_schedule(schedule.get<std::string>())
                                        : schedule_from_json(schedule);
  if (document.contains("prediction")) {
    field.prediction =
        parse_prediction(text_value(document["prediction"], source + ": prediction"));
  }
  if (document.contains("guidance")) {
    field.guidance = guidance_from_json(document["guidance"], source + ": guidance");
  }
  if (document.contains("clip")) {
    field.clip = clip_from_json(document["clip"], source + ": clip");
  }
  if (document.contains("time")) {
    network_input_from_json(document["time"], source + ": time");
    field.time = document["time"];
  }
  return field;
}

void check_description(const json& document, const std::string& source) {
  require(document.is_object(), source, "a description of solvers is one JSON object");
  if (document.contains("format")) {
    require(document["format"] == kStepsFormat, source,
            fmt::format("\"format\" must be \"{}\" where it is given", kStepsFormat));
    const json version = document.value("version", json());
    const std::array<json, 2> versions = {kStepsVersion, kClipVersion};
    const bool is_known_version =
        std::find(versions.begin(), versions.end(), version) != versions.end();
    require(is_known_version, source,
            fmt::format("\"version\" must be {} or {}", kStepsVersion, kClipVersion));
  }
  std::vector<std::string> optional = {"format", "version", "name",       "prediction", "guidance",
                                       "clip",   "time",    "provenance", "solvers"};
  if (!document.contains("solvers")) {
    const auto& solver_keys = keys_of_a_solver();
    optional.insert(optional.end(), solver_keys.begin(), solver_keys.end());
  }
  check_keys(document, {"schedule"}, optional, source);
}

}  // namespace

const std::vector<std::string>& term_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list = prediction_names();
    list.emplace_back("slope");
    return list;
  }();
  return names;
}

NsSolver from_steps(const std::vector<double>& times, const std::vector<UpdateRule>& rules,
                    Term term, StateSpace space, const Schedule& schedule) {
  if (times.empty()) throw bad_input("the solver has no times");
  check_count(rules.size(), times.size() - 1, "coefficients");
  const bool flow = is_flow(schedule), scaled = space == StateSpace::sigma && !flow;
  if (scaled) check_scale(schedule, times[0]);
  // y = x / alpha
  const auto scale = [&](size_t i) { return scaled ? schedule.alpha(times[i]) : 1; };
  Trace trace(&schedule);
  std::vector<LinearForm> states, terms;  // so far
  LinearForm x = trace.start();
  for (size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].c.size() != i + 1 || rules[i].d.size() != i + 1) {
      throw bad_input("step {} has {} and {} coefficients, it needs {} of each", i,
                      rules[i].c.size(), rules[i].d.size(), i + 1);
    }
    const Evaluation evaluation = trace.evaluate(times[i], x);
    states.push_back(1 / scale(i) * x);
    terms.push_back(term_of(term, schedule.at(times[i]), flow, evaluation));
    x = LinearForm();
    for (size_t j = 0; j <= i; ++j) {
      x += rules[i].c[j] * states[j];
      x += rules[i].d[j] * terms[j];
    }
    x *= scale(i + 1);
  }
  return scaled_to_its_start(trace.finish(times.back(), x), schedule);
}

NsSolver from_weights(const std::vector<double>& times, const Rows& weights, Term term,
                      const Schedule& schedule) {
  if (times.empty()) throw bad_input("the solver has no times");
  check_count(weights.size(), times.size() - 1, "weights");
  if (term == Term::v || term == Term::edm || term == Term::score) {
    throw bad_input("weights are over velocity, noise, data or slope, not {}",
                    term_names()[static_cast<size_t>(term)]);
  }
  const bool flow = is_flow(schedule);
  // Euler in sigma is DDIM on noise, and Euler in time on a flow path.
  const Term kind = term != Term::slope ? term : flow ? Term::velocity : Term::noise;
  Trace trace(&schedule);
  std::vector<LinearForm> terms;
  LinearForm x = trace.start();
  for (size_t i = 0; i < weights.size(); ++i) {
    const Evaluation evaluation = trace.evaluate(times[i], x);
    const SchedulePoint from = schedule.at(times[i]), to = schedule.at(times[i + 1]);
    terms.push_back(term_of(kind, from, flow, evaluation));
    const LinearForm term_here = weighted(terms, weights[i], i);
    if (kind == Term::velocity) {
      x = x + (times[i + 1] - times[i]) * term_here;
    } else if (kind == Term::noise) {
      x = noise_step(from, to, x, term_here, evaluation, is_newest_alone(weights[i]));
    } else {
      x = data_step(from, to, x, term_here);
    }
  }
  return scaled_to_its_start(trace.finish(times.back(), x), schedule);
}

NsSolver with_network_times(const NsSolver& solver, const std::vector<double>& network_times,
                            Term held, StateSpace space, const Schedule& schedule) {
  check_count(network_times.size(), static_cast<size_t>(solver.nfe()), "network times");
  std::vector<double> times = network_times;
  times.push_back(std::max(solver.times.back(), times.back()));
  const bool flow = is_flow(schedule), scaled = space == StateSpace::sigma && !flow;
  if (scaled) check_scale(schedule, std::min(solver.times[0], times[0]));
  // z_i = factor(i) x_i is what the network is given; after the last step it is x_n itself.
  const auto factor = [&](size_t i) {
    if (!scaled || i == network_times.size()) return 1.;
    return schedule.alpha(network_times[i]) / schedule.alpha(solver.times[i]);
  };
  std::vector<UpdateRule> rules;
  for (size_t i = 0; i < network_times.size(); ++i) {
    UpdateRule rule = {std::vector<double>(i + 1, 0), std::vector<double>(i + 1, 0)};
    rule.c[0] = solver.a[i] / factor(0);
    for (size_t j = 0; j <= i; ++j) {
      const auto term = term_from_velocity(held, schedule.at(network_times[j]), flow);
      const auto velocity = velocity_from_term(held, schedule.at(solver.times[j]), flow);
      rule.c[j] += solver.b[i][j] * (velocity.state / factor(j) + velocity.output * term.state);
      rule.d[j] = solver.b[i][j] * velocity.output * term.output;
    }
    for (double& c : rule.c) c *= factor(i + 1);
    for (double& d : rule.d) d *= factor(i + 1);
    rules.push_back(rule);
  }
  NsSolver result = from_update_rules(times, rules);
  result.start_scale = factor(0) * solver.start_scale;
  return result;
}

NsSolver on_times(const std::string& method, const std::vector<double>& times,
                  const SchedulePtr& schedule, bool lower_order_final) {
  const CatalogueEntry entry = entry_of(SolverName::parse(method));
  const auto steps = static_cast<int>(times.size()) - 1;
  int nfe = steps * entry.evaluations_per_step;
  for (int fewer = nfe; entry.steps(nfe) != steps && fewer > 0; --fewer) nfe = fewer;
  std::string grid = "custom";
  for (size_t i = 0; i < times.size(); ++i) grid += (i == 0 ? ":" : ",") + exact(times[i]);
  return make_solver(entry, {nfe, schedule, grid, lower_order_final});
}

SolverFile import_solvers(const nlohmann::json& description, const std::string& source) {
  check_description(description, source);
  return read_checked(source, [&] {
    SolverFile file;
    file.name = description.contains("name") ? text_value(description["name"], source + ": name")
                                             : "imported";
    file.field = read_imported_field(description, source);
    if (description.contains("solvers")) {
      const json& list = description["solvers"];
      require(list.is_array() && !list.empty(), source + ": solvers", "must be a list of solvers");
      for (size_t i = 0; i < list.size(); ++i) {
        const std::string place = fmt::format("{}: solvers[{}]", source, i);
        check_keys(list[i], {}, keys_of_a_solver(), place);
        const NsSolver solver = read_imported_solver(list[i], file.field, place);
        require(!file.has(solver.nfe()), place,
                fmt::format("is a second solver of {} evaluations", solver.nfe()));
        file.put({solver});
      }
    } else {
      file.put({read_imported_solver(description, file.field, source)});
    }
    file.provenance = description.value("provenance", json::object());
    require(file.provenance.is_object(), source, "provenance must be an object");
    file.provenance["made_by"] = "import";
    return file;
  });
}

SolverFile read_imported(const std::filesystem::path& path) {
  const std::string source = path.string();
  return import_solvers(parse_json(read_text_file(path), source,
                                   "it describes solvers, as docs/reference/solver-file.md has it"),
                        source);
}

}  // namespace bespoke
