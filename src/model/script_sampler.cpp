#include "bespoke/model/script_sampler.h"

#include <fmt/ranges.h>
#include <torch/script.h>

#include <cctype>
#include <set>
#include <sstream>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "bespoke/path/conversion.h"
#include "bespoke/path/network_input.h"
#include "libtorch_message.h"
#include "loaded_network.h"

namespace bespoke {

using namespace detail;

namespace {

// TorchScript outside Python knows types by number only.
const int kLongType = static_cast<int>(torch::kLong);
const int kFloatType = static_cast<int>(torch::kFloat);
const int kDoubleType = static_cast<int>(torch::kDouble);

constexpr char kForward[] = R"(
def forward(self, {parameters}) -> Tensor:
    kept = {double} if self.like.dtype == {double} else {float}
    start = (noise.to(self.like.device, {double}) * self.start_scale).to(kept)
    x = start
    velocities : List[Tensor] = []
    for i in range(len(self.a)):
        velocities.append(self.velocity(x, i{arguments}))
        total = start.to({double}) * self.a[i]
        for j in range(i + 1):
            total = total + velocities[j].to({double}) * self.b[i * (i + 1) // 2 + j]
        x = total.to(kept)
    return x
)";

// What the network is given is a copy, since it may write into it.
constexpr char kVelocity[] = R"(
def velocity(self, x: Tensor, step: int{parameters}) -> Tensor:
    batch = x.size(0)
    given = (x * self.input_scales[step]).to(self.like){layout}
    time = torch.full([batch], self.network_times[step], dtype={time_type}, device=self.like.device)
{conditions}{call}{own}{clip}    return (x.to({double}) * self.state_factors[step] + f.to({double}) * self.output_factors[step]).to(x.dtype)
)";

// The data prediction, clipped, in place of what the network predicts.
constexpr char kClip[] =
    R"(    f = x.to({double}) * self.data_state[step] + f.to({double}) * self.data_output[step]
)";

constexpr char kFixedClip[] = R"(    f = f.clamp({least}, {most})
)";

constexpr char kDynamicClip[] = R"(    sizes = f.flatten(1).abs().sort(1)[0]
    place = {quantile} * (sizes.size(1) - 1)
    low = int(place)
    below = sizes[:, low]
    limit = below + (place - low) * (sizes[:, min(low + 1, sizes.size(1) - 1)] - below)
    limit = limit.clamp({most}, {cap}).reshape([-1] + [1] * (x.dim() - 1))
    f = torch.minimum(torch.maximum(f, -limit), limit) * ({most} / limit)
)";

constexpr char kPlainCall[] = R"(    f = self.network.forward(given{arguments})
)";

constexpr char kGuidedCall[] = R"(    if self.weights[step] == 0.0:
        f = self.network.forward(given{arguments})
    else:
        both = self.network.forward(torch.cat([given, given]){doubled})
        if both.element_size() < 4:
            both = both.to({float})
        own = both[:batch]
        f = own + {weight} * (own - both[batch:])
)";

constexpr char kDecode[] = R"(
def decode(self, latents: Tensor) -> Tensor:
    image = self.decoder.forward((latents / self.decoder_scale + self.decoder_shift).to(self.like))
    return image.to({float}) if image.element_size() < 4 else image
)";

// The names of conditions as arguments: what is no identifier, or taken, is condition_0, ...
std::vector<std::string> argument_names(const std::vector<ConditionCard>& conditions) {
  static const std::set<std::string> taken = {
      "noise",    "self",   "guidance", "x",     "step",   "f",       "t",      "given", "time",
      "batch",    "both",   "own",      "class", "def",    "if",      "else",   "for",   "while",
      "return",   "lambda", "in",       "is",    "not",    "and",     "or",     "None",  "True",
      "False",    "pass",   "with",     "from",  "import", "as",      "assert", "raise", "break",
      "continue", "global", "nonlocal", "del",   "except", "finally", "try",    "yield", "torch",
      "async",    "await",  "elif",     "sizes", "place",  "low",     "below",  "limit"};
  std::vector<std::string> names;
  for (size_t i = 0; i < conditions.size(); ++i) {
    const std::string& name = conditions[i].name;
    bool plain = taken.count(name) == 0 && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
    for (const char c : name) {
      plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_');
    }
    names.push_back(plain ? name : fmt::format("condition_{}", i));
  }
  return names;
}

// The numbers of each step, worked out once.
struct StepNumbers {
  std::vector<double> network_times, input_scales, state_factors, output_factors, weights;
  std::vector<double> data_state, data_output;  // of a clipped prediction
  bool guided = false;
};

StepNumbers step_numbers(const NsSolver& solver, const ModelCard& card,
                         const GuidanceWeight& guidance, double margin) {
  StepNumbers numbers;
  for (int i = 0; i < solver.nfe(); ++i) {
    const ModelCall call =
        velocity_call(card.clip ? Prediction::data : card.prediction, *card.schedule,
                      solver.times[static_cast<size_t>(i)], margin);
    numbers.state_factors.push_back(call.velocity.state);
    numbers.output_factors.push_back(call.velocity.output);
    double time = call.time;
    if (card.clip) {
      const DataCall data = data_call(card.prediction, *card.schedule, time, margin);
      numbers.data_state.push_back(data.data.state);
      numbers.data_output.push_back(data.data.output);
      time = data.time;
    }
    numbers.network_times.push_back(network_time_value(card.time, *card.schedule, time));
    numbers.input_scales.push_back(
        network_input_scale(card.input_scaling, *card.schedule, time).value);
    numbers.weights.push_back(guidance.at(time).value);
    numbers.guided = numbers.guided || numbers.weights.back() != 0;
  }
  return numbers;
}

std::string clip_source(const std::optional<Clip>& clip) {
  if (!clip) return "";
  const auto decimal = [](double value) {  // never a whole number's text
    const std::string text = exact(value);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  };
  const std::string limits =
      clip->is_dynamic()
          ? fmt::format(kDynamicClip, fmt::arg("quantile", decimal(clip->quantile)),
                        fmt::arg("most", decimal(clip->most)), fmt::arg("cap", decimal(clip->cap)))
          : fmt::format(kFixedClip, fmt::arg("least", decimal(clip->least)),
                        fmt::arg("most", decimal(clip->most)));
  return fmt::format(kClip, fmt::arg("double", kDoubleType)) + limits;
}

// What turns the network's output into the prediction alone, with the channels behind the batch.
std::string own_output_source(const ModelCard& card) {
  std::string text;
  if (card.channels_last) text += "    f = f.movedim(-1, 1)\n";
  if (card.extra_channels > 0) {
    text += fmt::format("    f = f.narrow(1, 0, {})\n", card.sample_shape.front());
  }
  return text;
}

// The program of a module, written for its conditions and its guidance.
std::string source_text(const ModelCard& card, const ScriptSamplerOptions& options, bool guided,
                        bool decoder) {
  const auto names = argument_names(card.conditions);
  const bool timed = card.time.convention != TimeConvention::none;
  std::string parameters, arguments, given = timed ? ", time" : "";
  std::string doubled = timed ? ", torch.cat([time, time])" : "";
  std::string conditions;
  for (size_t i = 0; i < names.size(); ++i) {
    const ConditionCard& condition = card.conditions[i];
    const std::string& name = names[i];
    parameters += ", " + name + ": Tensor";
    arguments += ", " + name;
    given += ", " + name;
    const bool null = options.null_conditions.count(condition.name) == 1;
    doubled +=
        fmt::format(", torch.cat([{0}, {1}])", name,
                    null ? fmt::format("self.null_{}.to({}).expand_as({})", i, name, name) : name);
    const bool is_integer = !condition.is_tensor() || condition.integer;
    conditions +=
        fmt::format("    {0} = {0}.to(self.like.device, {1}).clone()\n", name,
                    is_integer ? std::to_string(kLongType) : std::string("self.like.dtype"));
  }
  const bool range = guided && options.guidance.range.has_value();
  const std::string weight =
      range ? "(self.weights[step] * guidance.to(both)).reshape([-1] + [1] * (x.dim() - 1))"
            : "self.weights[step]";
  if (range) {
    parameters += ", guidance: Tensor";
    arguments += ", guidance";
  }
  const std::string call =
      guided ? fmt::format(kGuidedCall, fmt::arg("arguments", given), fmt::arg("doubled", doubled),
                           fmt::arg("weight", weight), fmt::arg("float", kFloatType))
             : fmt::format(kPlainCall, fmt::arg("arguments", given));
  const std::string time_type = card.time.integer ? std::to_string(kLongType) : "self.like.dtype";
  std::string text = fmt::format(
      kVelocity, fmt::arg("parameters", parameters), fmt::arg("time_type", time_type),
      fmt::arg("conditions", conditions), fmt::arg("call", call), fmt::arg("double", kDoubleType),
      fmt::arg("layout", card.channels_last ? ".movedim(1, -1).contiguous()" : ""),
      fmt::arg("own", own_output_source(card)), fmt::arg("clip", clip_source(card.clip)));
  text += fmt::format(kForward, fmt::arg("parameters", "noise: Tensor" + parameters),
                      fmt::arg("arguments", arguments), fmt::arg("double", kDoubleType),
                      fmt::arg("float", kFloatType));
  if (decoder) text += fmt::format(kDecode, fmt::arg("float", kFloatType));
  return text;
}

void add_numbers(torch::jit::Module& module, const std::string& name,
                 const std::vector<double>& values) {
  module.register_attribute(name, c10::ListType::ofFloats(), c10::List<double>(values));
}

void add_number(torch::jit::Module& module, const std::string& name, double value) {
  module.register_attribute(name, c10::FloatType::get(), value);
}

void add_solver(torch::jit::Module& module, const NsSolver& solver, const Schedule& schedule) {
  add_numbers(module, "times", solver.times);
  add_numbers(module, "a", solver.a);
  std::vector<double> rows;
  for (const auto& row : solver.b) rows.insert(rows.end(), row.begin(), row.end());
  add_numbers(module, "b", rows);
  add_number(module, "start_scale", solver.start_scale * schedule.source_std());
}

}  // namespace

std::string script_sampler(const SolverFile& file, const LoadedNetwork& network,
                           const ModelCard& card, const ScriptSamplerOptions& options,
                           const Decoder* decoder) {
  const NsSolver& solver = file.at();
  require_one_velocity(solver, "a TorchScript file");
  if (!card.parts.empty()) {
    throw bad_input(
        "a TorchScript file of model and solver is of samples that are one tensor, and {} has "
        "several parts; export the solver alone, to c",
        card.name);
  }
  const auto dtype = network.options().dtype;
  const StepNumbers numbers = step_numbers(solver, card, options.guidance, safe_margin(dtype));
  if (numbers.guided && options.null_conditions.empty()) {
    throw bad_input("guidance needs a condition that has a null value; the model {} has none",
                    card.name);
  }
  torch::jit::Module module("bespoke_sampler");
  add_solver(module, solver, *card.schedule);
  add_numbers(module, "network_times", numbers.network_times);
  add_numbers(module, "input_scales", numbers.input_scales);
  add_numbers(module, "state_factors", numbers.state_factors);
  add_numbers(module, "output_factors", numbers.output_factors);
  add_numbers(module, "weights", numbers.weights);
  add_numbers(module, "data_state", numbers.data_state);
  add_numbers(module, "data_output", numbers.data_output);
  // Where the module is and what it computes in, wherever it is moved to.
  module.register_buffer("like", torch::zeros({0}, network.options().device).to(dtype));
  for (size_t i = 0; i < card.conditions.size(); ++i) {
    const auto null = options.null_conditions.find(card.conditions[i].name);
    if (null == options.null_conditions.end()) continue;
    module.register_buffer(fmt::format("null_{}", i), null->second.to(network.options().device));
  }
  module.register_module("network", network.script());
  if (decoder != nullptr) {
    module.register_module("decoder", decoder->module().script());
    add_number(module, "decoder_scale", decoder->card().scale);
    add_number(module, "decoder_shift", decoder->card().shift);
  }
  try {
    module.define(source_text(card, options, numbers.guided, decoder != nullptr));
    std::ostringstream stream;
    module.save(stream, {{"solver.json", to_json_text(file)}});
    return stream.str();
  } catch (const std::exception& error) {
    throw bad_input("the network cannot be put into one file with the solver: {}",
                    last_error_line(error.what()));
  }
}

}  // namespace bespoke
