#include "bespoke/solver/c_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/path/conversion.h"
#include "bespoke/path/network_input.h"
#include "bespoke/solver/lowering.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kHeaderBeginning[] = R"(/* {title}
 *
 * C11 and C++17, no other file needed. The network is called on states x [size] and writes its
 * {prediction} prediction f. The solver is
 *   x_0 = start_scale * noise,   x_(i+1) = a_i x_0 + sum over j <= i of b_ij f_j,
 * with noise of standard deviation {deviation}.{clip}
 */
#ifndef {guard}
#define {guard}

#include <stddef.h>

#define {macro}_NFE {nfe}

static const double {name}_start_scale = {start_scale};
/* 0 is the noise and 1 the data. */
static const double {name}_times[{nfe} + 1] = {times};
/* What other tools call sigma: sigma / alpha, or sigma itself on a flow path. */
static const double {name}_sigmas[{nfe} + 1] = {sigmas};
static const double {name}_a[{nfe}] = {a};
static const double {name}_b[{nfe}][{nfe}] = {{
{b}}};
)";

constexpr char kNetwork[] = R"(
/* What the network is given: these times{whole}, and x times these numbers. */
static const double {name}_network_times[{nfe}] = {network_times};
static const double {name}_input_scales[{nfe}] = {input_scales};
)";

constexpr char kClip[] = R"(
/* What the network writes becomes the data prediction, clipped to this range, before it is stepped
   with: f = data_state x + data_output f. */
static const double {name}_data_state[{nfe}] = {data_state};
static const double {name}_data_output[{nfe}] = {data_output};
static const double {name}_clip[2] = {clip};
)";

constexpr char kClipLoop[] = R"(    for (k = 0; k < size; ++k) {{
      {type}* const f = work + (size_t)(i + 1) * size + k;
      double data = {name}_data_state[i] * (double)x[k] + {name}_data_output[i] * (double)*f;
      if (data < {name}_clip[0]) data = {name}_clip[0];
      if (data > {name}_clip[1]) data = {name}_clip[1];
      *f = ({type})data;
    }}
)";

constexpr char kFunction[] = R"(
/* From noise in x to a sample in x. `work` holds ({nfe} + 1) * size numbers. The network is told the
   step, 0 ... {nfe} - 1, and its time t. */
typedef void (*{name}_network_{type})(int step, double t, const {type}* x, {type}* f, size_t size,
                                      void* context);
static inline void {name}_sample_{type}({name}_network_{type} network, void* context, {type}* x,
                                        {type}* work, size_t size) {{
  {type}* const start = work;
  size_t k;
  int i, j;
  for (k = 0; k < size; ++k) {{
    start[k] = x[k] = ({type})({name}_start_scale * (double)x[k]);
  }}
  for (i = 0; i < {macro}_NFE; ++i) {{
    network(i, {name}_times[i], x, work + (size_t)(i + 1) * size, size, context);
{clip}    for (k = 0; k < size; ++k) {{
      double sum = {name}_a[i] * (double)start[k];
      for (j = 0; j <= i; ++j) {{
        sum += {name}_b[i][j] * (double)work[(size_t)(j + 1) * size + k];
      }}
      x[k] = ({type})sum;
    }}
  }}
}}
)";

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_identifier(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), is_letter);
}

// "8 steps, mine" is solver_8_steps_mine.
std::string made_identifier(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (is_letter(c)) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (name.empty()) return "solver";
  return is_identifier(name) ? name : "solver_" + name;
}

// Without what would end a comment, or seem to begin one inside it, and in ASCII.
std::string comment_text(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    const char before = plain.empty() ? ' ' : plain.back();
    const bool delimits = (c == '/' && before == '*') || (c == '*' && before == '/');
    plain += c >= ' ' && c <= '~' && !delimits ? c : '?';
  }
  return plain;
}

// A literal cannot be infinite; the largest double is.
std::string literal(double value) {
  return exact(std::isinf(value) ? std::copysign(std::numeric_limits<double>::max(), value)
                                 : value);
}

std::string literals(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(literal(value));
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

std::string upper_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Where the network is asked about each step's data prediction, which is what is clipped.
std::vector<DataCall> data_calls(Prediction prediction, const Schedule& schedule,
                                 const LoweredSolver& solver, double margin) {
  std::vector<DataCall> calls;
  for (int i = 0; i < solver.nfe(); ++i) {
    calls.push_back(data_call(prediction, schedule, solver.times[static_cast<size_t>(i)], margin));
  }
  return calls;
}

std::string clip_part(const Clip& clip, const std::vector<DataCall>& calls,
                      const std::string& name) {
  std::vector<double> states, outputs;
  for (const DataCall& call : calls) {
    states.push_back(call.data.state);
    outputs.push_back(call.data.output);
  }
  return fmt::format(kClip, fmt::arg("name", name), fmt::arg("nfe", calls.size()),
                     fmt::arg("data_state", literals(states)),
                     fmt::arg("data_output", literals(outputs)),
                     fmt::arg("clip", literals({clip.least, clip.most})));
}

std::string network_part(const FieldDescription& field, const LoweredSolver& solver,
                         const std::string& name) {
  if (field.time.is_null()) return "";
  const NetworkInput input = network_input_from_json(field.time, "field.time");
  std::vector<double> times, scales;
  for (int i = 0; i < solver.nfe(); ++i) {
    const double t = solver.times[static_cast<size_t>(i)];
    times.push_back(network_time_value(input.time, *field.schedule, t));
    scales.push_back(network_input_scale(input.scaling, *field.schedule, t).value);
  }
  return fmt::format(kNetwork, fmt::arg("name", name), fmt::arg("nfe", solver.nfe()),
                     fmt::arg("whole", input.time.integer ? ", which are whole" : ""),
                     fmt::arg("network_times", literals(times)),
                     fmt::arg("input_scales", literals(scales)));
}

}  // namespace

std::string c_header(const SolverFile& file, const CHeaderOptions& options) {
  if (!options.name.empty() && !is_identifier(options.name)) {
    throw usage_error("the name must be an identifier of C, found '{}'", options.name);
  }
  const std::string name = options.name.empty() ? made_identifier(file.name) : options.name;
  const std::string macro = upper_case(name);
  const Schedule& schedule = *file.field.schedule;
  const double margin = safe_margin(std::numeric_limits<float>::epsilon());
  const Prediction prediction = options.prediction.value_or(file.field.prediction);
  const std::optional<Clip>& clip = file.field.clip;
  if (clip && clip->is_dynamic()) {
    throw bad_input(
        "a C header clips to a fixed range, and the solver's field has a dynamic one ({}); export "
        "it to torchscript",
        to_string(*clip));
  }
  LoweredSolver solver = lower(file.at(), clip ? Prediction::data : prediction, schedule, margin);
  const auto calls = data_calls(prediction, schedule, solver, margin);
  for (size_t i = 0; clip && i < calls.size(); ++i) {
    solver.times[i] = calls[i].time;
    solver.sigmas[i] = tool_sigma(schedule, calls[i].time);
  }
  std::string rows;
  for (std::vector<double> row : solver.b) {
    row.resize(solver.a.size(), 0);
    rows += "    " + literals(row) + ",\n";
  }
  std::string text = fmt::format(
      kHeaderBeginning,
      fmt::arg("title", fmt::format("{}: {} evaluations on the {} path", comment_text(file.name),
                                    solver.nfe(), schedule.name())),
      fmt::arg("prediction", to_string(prediction)),
      fmt::arg("clip", clip ? "\n * The solver steps with the " + to_string(*clip) + "." : ""),
      fmt::arg("deviation", exact(schedule.source_std())), fmt::arg("guard", macro + "_H"),
      fmt::arg("name", name), fmt::arg("macro", macro), fmt::arg("nfe", solver.nfe()),
      fmt::arg("start_scale", literal(solver.start_scale)),
      fmt::arg("times", literals(solver.times)), fmt::arg("sigmas", literals(solver.sigmas)),
      fmt::arg("a", literals(solver.a)), fmt::arg("b", rows));
  text += network_part(file.field, solver, name);
  if (clip) text += clip_part(*clip, calls, name);
  for (const char* type : {"float", "double"}) {
    const std::string loop =
        clip ? fmt::format(kClipLoop, fmt::arg("type", type), fmt::arg("name", name)) : "";
    text += fmt::format(kFunction, fmt::arg("type", type), fmt::arg("name", name),
                        fmt::arg("clip", loop), fmt::arg("macro", macro),
                        fmt::arg("nfe", solver.nfe()));
  }
  return text + fmt::format("\n#endif /* {}_H */\n", macro);
}

}  // namespace bespoke
