#include <torch/torch.h>

#include "bespoke/base/error.h"
#include "bespoke/jobs/conditions.h"
#include "bespoke/model/script_sampler.h"
#include "bespoke/solver/named_solver.h"
#include "commands/export_command.h"
#include "options/model_options.h"

namespace bespoke {

namespace {

ModelOptions model_options(const ExportCommandOptions& options) {
  ModelOptions model;
  model.model = options.model;
  model.guidance = options.guidance;
  model.guidance_scale = options.guidance_scale;
  model.guidance_interval = options.guidance_interval;
  model.dtype = options.dtype;
  model.device = "cpu";
  model.trial = NetworkTrial::insist;
  return model;
}

}  // namespace

std::string torchscript_bytes(const ExportCommandOptions& options) {
  if (options.model.rfind("analytic:", 0) == 0) {
    throw usage_error("--to torchscript needs a model card; an analytic model is no network");
  }
  OpenModel open = open_model(model_options(options));
  // What is exported is not run here: its mistakes would be found by whoever runs it.
  if (open.decoder) open.decoder->decode(torch::zeros(open.card.sample_shape).unsqueeze(0));
  // Guided as the solver was made to be, unless told otherwise.
  if (open.guidance.is_zero() && options.guidance.empty() && options.guidance_scale.empty() &&
      SolverName::parse(options.solver).is_file()) {
    open.guidance = read_solver_file(options.solver).field.guidance;
  }
  SolverFile file = solvers_to_export(options, open.field(), true);
  file.field = open.field();
  ScriptSamplerOptions script;
  script.guidance = open.guidance;
  for (const auto& condition : open.card.conditions) {
    if (condition.has_null()) script.null_conditions[condition.name] = null_value(condition);
  }
  return script_sampler(file, *open.network, open.card, script, open.decoder.get());
}

}  // namespace bespoke
