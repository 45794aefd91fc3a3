#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/mean.h"
#include "bespoke/base/psnr.h"
#include "bespoke/distill/call_plan.h"
#include "bespoke/distill/distill.h"
#include "bespoke/distill/plain_features.h"
#include "bespoke/solver/translation.h"
#include "bindings.h"
#include "sampling.h"

namespace bespoke::python {

namespace {

using Rows = py::array_t<double, py::array::c_style | py::array::forcecast>;

// What a callable of Python made of samples.
Matrix matrix_of(const Rows& rows) {
  if (rows.ndim() != 2) {
    throw bad_input("features are a row of numbers for each sample, found an array of {} axes",
                    rows.ndim());
  }
  Matrix matrix(static_cast<size_t>(rows.shape(0)), static_cast<size_t>(rows.shape(1)));
  matrix.values.assign(rows.data(), rows.data() + rows.size());
  return matrix;
}

// The options of a distillation under flat names; callbacks are given to `distill` itself.
void bind_options(py::module_& module) {
  using Options = DistillOptions;
  py::class_<Options>(module, "DistillOptions")
      .def(py::init([](int nfe, const std::string& method, const std::string& prediction,
                       const ScheduleHandle& schedule, const GuidanceWeight& guidance) {
             Options options;
             options.nfe = nfe;
             options.method = parse_method(method);
             if (options.method == Method::adam) {
               throw usage_error(
                   "this method needs gradients of the model, which callables do not have; take "
                   "auto, fit or direct");
             }
             options.field = {parse_prediction(prediction), schedule.schedule, guidance};
             return options;
           }),
           py::arg("nfe"), py::arg("method"), py::arg("prediction"), py::arg("schedule"),
           py::arg("guidance"))
      .def_readonly("nfe", &Options::nfe)
      .def_property_readonly("method", [](const Options& o) { return to_string(o.method); })
      .def_readwrite("iterations", &Options::iterations)
      .def_readwrite("most_calls", &Options::most_calls)
      .def_readwrite("reference_forwards", &Options::reference_forwards)
      .def_readwrite("network_calls", &Options::network_calls)
      .def_readwrite("patience", &Options::patience)
      .def_readwrite("least_gain", &Options::least_gain)
      .def_readwrite("seed", &Options::seed)
      .def_readwrite("peak", &Options::peak)
      .def_property(
          "batch", [](const Options& o) { return o.direct.batch; },
          [](Options& o, int64_t batch) { o.direct.batch = batch; })
      .def_property(
          "difference", [](const Options& o) { return o.direct.difference; },
          [](Options& o, double difference) { o.direct.difference = difference; })
      .def_property(
          "time_difference", [](const Options& o) { return o.direct.time_difference; },
          [](Options& o, double difference) { o.direct.time_difference = difference; })
      .def_property(
          "match", [](const Options& o) { return to_string(o.match.match); },
          [](Options& o, const std::string& match) { o.match.match = parse_match(match); })
      .def_property(
          "match_weight", [](const Options& o) { return o.match.weight; },
          [](Options& o, double weight) { o.match.weight = weight; })
      .def_property(
          "match_groups", [](const Options& o) { return o.match.groups; },
          [](Options& o, std::vector<int64_t> groups) { o.match.groups = std::move(groups); })
      .def("set_features",
           [](Options& o, const py::function& features) {
             o.match.features = [features](const Array& samples) {
               return matrix_of(features(object_of(samples)).cast<Rows>());
             };
           })
      .def("add_start",
           [](Options& o, std::string name, NsSolver solver) {
             o.starts.push_back({std::move(name), std::move(solver)});
           })
      .def("constrain",
           [](Options& o, bool unit_start_scale, const std::string& times) {
             o.constraints = {unit_start_scale, parse_time_rounding(times)};
             if (o.network_calls == 0) o.family = bns_family(o.nfe, o.constraints);
           })
      .def("validate", &Options::validate);
}

// `measured`: whether any start was.
py::dict to_dict(const DistillSummary& summary, bool measured, bool interrupted) {
  const auto psnr = [&](double value) {
    return measured ? value : std::numeric_limits<double>::quiet_NaN();
  };
  py::dict result;
  result["solver"] = summary.solver;
  result["provenance"] = to_python(to_json(summary.provenance()));
  result["start"] = summary.start;
  result["initial_psnr"] = psnr(summary.initial_psnr);
  result["psnr"] = psnr(summary.validation_psnr);
  result["psnr_error"] = psnr(summary.validation_error);
  result["training_psnr"] = summary.training_psnr;
  result["iterations"] = summary.iterations;
  result["seconds"] = summary.seconds;
  result["ending"] = interrupted ? "interrupted" : to_string(summary.ending);
  result["message"] = interrupted ? "" : summary.message;
  return result;
}

[[noreturn]] void raise_keyboard_interrupt() {
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw py::error_already_set();
}

// Interruptions are caught while it lives.
class Watch {
 public:
  explicit Watch(Questions& questions) : questions_(questions) {
    questions_.catch_interruptions(true);
  }
  ~Watch() { questions_.catch_interruptions(false); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Questions& questions_;
};

// `on_progress(what, fraction)`, `on_start(name, psnr)` and
// `on_iteration(iteration, psnr, best_psnr) -> whether to go on`.
py::dict distill_samples(const SamplesHandle& training, const SamplesHandle& validation,
                         DistillOptions options, const py::function& on_progress,
                         const py::function& on_start, const py::function& on_iteration) {
  Questions& questions = *training.field.questions;
  Team& team = training.field.members();
  const Watch watch(questions);
  bool measured = false;
  if (options.match.features) {
    options.match.features = [&questions, ask = options.match.features](const Array& samples) {
      return questions.ask([&] { return ask(samples); });
    };
  }
  options.on_progress = [&](const std::string& what, double fraction) {
    if (questions.interrupted()) return;  // there may be a fit to keep already
    questions.ask([&] { return on_progress(what, fraction); });
  };
  options.on_start = [&](const StartState& start, const Counts&, const SolverShape&) {
    if (start.diverged) return;
    measured = true;
    questions.ask([&] { return on_start(start.name, start.initial_psnr); });
  };
  options.on_iteration = [&](const DistillProgress& progress, const DistillState&) {
    const auto goes_on = [&] {
      if (questions.interrupted()) return false;
      const py::object answer = questions.ask([&] {
        return on_iteration(progress.iteration, progress.validation_psnr, progress.best_psnr);
      });
      return answer.cast<bool>();
    };
    const bool stops = !goes_on();
    const bool all_stop = team.size() > 1 ? any_of(team, stops) : stops;
    return all_stop ? Verdict::stop : Verdict::go_on;
  };
  try {
    const DistillSummary summary = distill(*training.samples, *validation.samples, options);
    return to_dict(summary, measured, questions.interrupted());
  } catch (const Error&) {
    if (questions.interrupted()) raise_keyboard_interrupt();
    throw;
  }
}

// The mean PSNR of a solver on samples and its standard error; NaN where it diverges on one.
std::pair<double, double> measure(const SamplesHandle& handle, const NsSolver& solver,
                                  double peak) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Watch watch(*handle.field.questions);
  const Samples& samples = *handle.samples;
  try {
    Counts counts;
    const auto errors = samples.log_errors(
        samples.coordinates() ? to_canonical(solver, *samples.coordinates()) : solver,
        first_samples(samples), &counts);
    return {psnr_of_loss(detail::mean(errors), peak), psnr_error(errors)};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::diverged) return {kNone, kNone};
    throw;
  }
}

}  // namespace

void bind_distillation(py::module_& module) {
  bind_options(module);
  module.def(
      "plain_features",
      [](const Rows& samples, const std::vector<int64_t>& shape) {
        const Matrix found =
            PlainFeatures(shape)({samples.data(), samples.data() + samples.size()});
        Rows rows({found.rows, found.columns});
        std::copy(found.values.begin(), found.values.end(), rows.mutable_data());
        return rows;
      },
      py::arg("samples"), py::arg("shape"));
  module.def(
      "plan_calls",
      [](int64_t calls, int64_t run, int64_t evaluation, int64_t samples, bool holds_out) {
        const CallPlan plan = plan_calls({calls, run, evaluation, samples, holds_out});
        return py::make_tuple(plan.samples, plan.held_out, plan.evaluations);
      },
      py::arg("calls"), py::arg("run"), py::arg("evaluation"), py::arg("samples"),
      py::arg("holds_out"));
  module.def("measure", &measure, py::arg("samples"), py::arg("solver"), py::arg("peak"));
  module.def("distill", &distill_samples, py::arg("training"), py::arg("validation"),
             py::arg("options"), py::arg("on_progress"), py::arg("on_start"),
             py::arg("on_iteration"));
}

}  // namespace bespoke::python
