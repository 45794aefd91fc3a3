#include "bespoke/solver/exported_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"
#include "bespoke/solver/imported_solver.h"
#include "bespoke/solver/lowering.h"

namespace bespoke {

using namespace detail;

namespace {

using OrderedJson = nlohmann::ordered_json;

// A cell of a table.
class Digits {
 public:
  explicit Digits(int digits) : digits_(digits) {
    if (digits < 1 || digits > 17) throw usage_error("digits must be 1 to 17, found {}", digits);
  }
  std::string operator()(double value) const { return fmt::format("{:.{}g}", value, digits_); }

 private:
  int digits_;
};

// A row for each step: i, t_i, a_i, b_i0 ... b_ii and empty cells.
std::vector<std::vector<std::string>> table_rows(const NsSolver& solver, const Digits& text) {
  require_one_velocity(solver, "a table of coefficients");
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < solver.a.size(); ++i) {
    rows.push_back({fmt::format("{}", i), text(solver.times[i]), text(solver.a[i])});
    for (size_t j = 0; j < solver.a.size(); ++j) {
      rows.back().push_back(j <= i ? text(solver.b[i][j]) : "");
    }
  }
  return rows;
}

// The text with a backslash before what Markdown or LaTeX would act on.
std::string escaped(const std::string& text, const std::string& special) {
  std::string result;
  for (const char c : printable(text)) {
    if (special.find(c) != std::string::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string latex_name(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '\\') {
      result += "\\textbackslash{}";
    } else if (c == '^' || c == '~') {
      result += fmt::format("\\{}{{}}", c);
    } else {
      if (std::string("&%$#_{}").find(c) != std::string::npos) result += '\\';
      result += c;
    }
  }
  return result;
}

// -1.5e-07 as -1.5 \cdot 10^{-7}.
std::string latex_number(const std::string& text) {
  const size_t e = text.find('e');
  if (text.empty()) return text;
  if (e == std::string::npos) return "$" + text + "$";
  return fmt::format("${} \\cdot 10^{{{}}}$", text.substr(0, e), std::stoi(text.substr(e + 1)));
}

std::string clip_text(const FieldDescription& field) {
  return field.clip ? ", " + to_string(*field.clip) : "";
}

std::string markdown_table(const SolverFile& file, const NsSolver& solver, const Digits& text) {
  std::string table = fmt::format(
      "**{}**, {} evaluations, for the {} field of a {} model{}, {}. The noise is multiplied by {} "
      "and the end is t = {}.\n\n",
      escaped(file.name, "\\`*_[]<>|#"), solver.nfe(), file.field.schedule->name(),
      to_string(file.field.prediction), clip_text(file.field), to_string(file.field.guidance),
      text(solver.start_scale), text(solver.times.back()));
  std::vector<std::string> head = {"$i$", "$t_i$", "$a_i$"}, line(solver.a.size() + 3, "---:");
  for (size_t j = 0; j < solver.a.size(); ++j) head.push_back(fmt::format("$b_{{i,{}}}$", j));
  table += fmt::format("| {} |\n|{}|\n", fmt::join(head, " | "), fmt::join(line, "|"));
  for (const auto& row : table_rows(solver, text)) {
    table += fmt::format("| {} |\n", fmt::join(row, " | "));
  }
  return table;
}

std::string latex_table(const SolverFile& file, const NsSolver& solver, const Digits& text) {
  std::vector<std::string> head = {"$i$", "$t_i$", "$a_i$"};
  for (size_t j = 0; j < solver.a.size(); ++j) head.push_back(fmt::format("$b_{{i,{}}}$", j));
  std::string rows;
  for (auto row : table_rows(solver, text)) {
    for (size_t k = 1; k < row.size(); ++k) row[k] = latex_number(row[k]);
    rows += fmt::format("    {} \\\\\n", fmt::join(row, " & "));
  }
  return fmt::format(
      "\\begin{{table}}\n  \\centering\n  \\caption{{{name}: the solver of {nfe} evaluations for "
      "the {path} field of a {prediction} model{clip}, {guidance}: $x_0 = {scale}\\,\\varepsilon$, "
      "$x_{{i+1}} = a_i x_0 + \\sum_{{j \\le i}} b_{{i,j}}\\, u(t_j, x_j)$.}}\n"
      "  \\begin{{tabular}}{{{columns}}}\n    \\toprule\n    {head} \\\\\n    \\midrule\n{rows}"
      "    \\bottomrule\n  \\end{{tabular}}\n\\end{{table}}\n",
      fmt::arg("name", latex_name(file.name)), fmt::arg("nfe", solver.nfe()),
      fmt::arg("path", latex_name(file.field.schedule->name())),
      fmt::arg("prediction", to_string(file.field.prediction)),
      fmt::arg("clip", latex_name(clip_text(file.field))),
      fmt::arg("guidance", latex_name(to_string(file.field.guidance))),
      fmt::arg("scale", text(solver.start_scale)),
      fmt::arg("columns", std::string(solver.a.size() + 3, 'r')),
      fmt::arg("head", fmt::join(head, " & ")), fmt::arg("rows", rows));
}

// What diffusers calls what a network predicts; its flows predict the negative velocity.
std::string diffusers_prediction(const FieldDescription& field) {
  if (field.schedule->name() == fm_ot_schedule()->name()) return "flow_prediction";
  switch (field.prediction) {
    case Prediction::noise:
      return "epsilon";
    case Prediction::data:
      return "sample";
    case Prediction::v:
      return "v_prediction";
    default:
      throw bad_input("diffusers has no scheduler for {} predictions on the path {}",
                      to_string(field.prediction), field.schedule->name());
  }
}

// The keys by which diffusers' own schedulers make the betas of a schedule, for the way back.
OrderedJson diffusers_betas(const Schedule& schedule) {
  const nlohmann::json description = schedule.describe();
  const std::string name = schedule.name();
  OrderedJson betas = OrderedJson::object();
  if (name == "ddpm-linear" || name == "ddpm-scaled-linear") {
    betas["beta_start"] = description["beta_start"];
    betas["beta_end"] = description["beta_end"];
    betas["beta_schedule"] = name == "ddpm-linear" ? "linear" : "scaled_linear";
  }
  if (name == "ddpm-cosine") betas["beta_schedule"] = "squaredcos_cap_v2";
  return betas;
}

}  // namespace

std::string markdown_text(const SolverFile& file, int digits) {
  const Digits text(digits);
  std::vector<std::string> tables;
  for (const auto& filed : file.solvers) {
    tables.push_back(markdown_table(file, filed.solver, text));
  }
  return fmt::format(
      "{}\n$x_0$ is the noise so multiplied, $u$ the velocity, and\n\n"
      "$$x_{{i+1}} = a_i x_0 + \\sum_{{j \\le i}} b_{{i,j}}\\, u(t_j, x_j)$$\n",
      fmt::join(tables, "\n"));
}

std::string latex_text(const SolverFile& file, int digits) {
  const Digits text(digits);
  std::vector<std::string> tables;
  for (const auto& filed : file.solvers) tables.push_back(latex_table(file, filed.solver, text));
  return fmt::format("% needs \\usepackage{{booktabs}}\n{}", fmt::join(tables, "\n"));
}

std::string sigmas_text(const SolverFile& file) {
  const Schedule& schedule = *file.field.schedule;
  OrderedJson document = {{"format", kStepsFormat},
                          {"version", file.field.clip ? kClipVersion : kStepsVersion},
                          {"name", file.name},
                          {"schedule", schedule.describe()},
                          {"prediction", to_string(file.field.prediction)},
                          {"guidance", describe(file.field.guidance)}};
  if (!file.field.time.is_null()) document["time"] = file.field.time;
  if (file.field.clip) document["clip"] = describe(*file.field.clip);
  for (const auto& filed : file.solvers) {
    const SigmaSolver solver =
        lower_to_sigmas(filed.solver, schedule, safe_margin(std::numeric_limits<float>::epsilon()));
    document["solvers"].push_back({{"nfe", solver.nfe()},
                                   {"space", "sigma"},
                                   {"over", "slope"},
                                   {"sigmas", solver.sigmas},
                                   {"start_scale", solver.start_scale},
                                   {"a", solver.a},
                                   {"b", solver.b}});
  }
  if (!file.provenance.empty()) document["provenance"] = file.provenance;
  return json_text(document, 2) + "\n";
}

std::string diffusers_config_text(const SolverFile& file) {
  const Schedule& schedule = *file.field.schedule;
  const std::string prediction = diffusers_prediction(file.field);
  if (is_part(schedule)) {
    throw bad_input(
        "a scheduler of diffusers runs whole paths, and the solver's is a part of one, {}",
        schedule.describe().dump());
  }
  const bool flow = prediction == "flow_prediction";
  constexpr int64_t kFlowLevels = 1000;  // networks of flows are given 1000 sigma
  const int64_t levels = flow ? kFlowLevels : discrete_levels(schedule);
  if (levels == 0) {
    throw bad_input(
        "networks of diffusers do not count time as the schedule {} does; solvers for fm-ot, the "
        "ddpm schedules and tables of alphas_cumprod can be run",
        schedule.name());
  }
  OrderedJson config = {{"_class_name", "BespokeScheduler"},
                        {"num_train_timesteps", levels},
                        {"prediction_type", prediction}};
  config.update(diffusers_betas(schedule));
  for (const int nfe : file.nfes()) {
    require_one_velocity(file.at(nfe), "a scheduler of diffusers");
    config["solvers"].push_back(OrderedJson::parse(to_json_text(file.only(nfe))));
  }
  return json_text(config, 2) + "\n";
}

}  // namespace bespoke
