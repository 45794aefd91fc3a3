#include "sampling.h"

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bespoke/distill/best_of_catalogue.h"
#include "bespoke/distill/reference_tolerance.h"
#include "bespoke/run/canonical_samples.h"
#include "bespoke/run/reference.h"
#include "bindings.h"

namespace bespoke::python {

namespace {

FieldHandle field_handle(const py::object& field, const ScheduleHandle& schedule,
                         const py::object& team) {
  FieldHandle handle;
  handle.questions = std::make_shared<Questions>();
  handle.arrays = python_arrays(field.attr("arrays"), handle.questions);
  handle.field = model_field(python_model(field, handle.arrays, handle.questions),
                             parse_prediction(field.attr("prediction").cast<std::string>()),
                             schedule.schedule);
  if (!team.is_none()) handle.team = python_team(team);
  return handle;
}

// The samples that are finite; half of them must be. `why` says what was wrong with the first.
std::vector<int64_t> finite_rows(const Arrays& arrays, const Array& x, const std::string& why) {
  std::vector<int64_t> rows;
  for (int64_t k = 0; k < arrays.count(x); ++k) {
    if (arrays.is_finite(arrays.rows(x, k, k + 1))) rows.push_back(k);
  }
  if (2 * static_cast<int64_t>(rows.size()) < arrays.count(x)) {
    throw Error(ErrorKind::diverged,
                fmt::format("the model's own samples are not finite for {} of {} noises: {}",
                            arrays.count(x) - static_cast<int64_t>(rows.size()), arrays.count(x),
                            why.empty() ? "check the model near t = 0 and t = 1" : why));
  }
  return rows;
}

// (x, evaluations, trajectories or None, which rows are finite): x and the trajectories are of
// these alone.
py::tuple draw(const FieldHandle& handle, const py::object& noise,
               const std::vector<int64_t>& samples, double tolerance, int64_t evaluations,
               bool record, bool together, int64_t batch, const py::object& on_progress) {
  ReferenceOptions options;
  options.tolerances = {tolerance, tolerance};
  options.fixed_evaluations = evaluations;
  options.record = record ? static_cast<int64_t>(samples.size()) : 0;
  options.together = together;
  options.batch = batch;
  std::string why;
  options.on_given_up = [&](int64_t, const std::string& reason) {
    if (why.empty()) why = reason;
  };
  if (!on_progress.is_none()) {
    options.on_progress = [&](double done) { on_progress(done); };
  }
  Reference drawn = draw_reference(handle.field, handle.arrays, array_of(noise), samples, options,
                                   handle.members());
  const std::vector<int64_t> finite = finite_rows(*handle.arrays, drawn.x, why);
  py::object trajectories = py::none();
  if (record) {
    trajectories = py::cast(std::make_shared<Trajectories>(drawn.trajectories.of(finite)));
  }
  return py::make_tuple(object_of(handle.arrays->take(drawn.x, finite)), drawn.evaluations,
                        trajectories, finite);
}

SamplesHandle samples_of(const FieldHandle& handle, const py::object& noise, const py::object& x1,
                         const std::shared_ptr<Trajectories>& trajectories,
                         std::vector<int64_t> numbers, int64_t batch, bool joins_runs,
                         const py::object& mask) {
  EvaluationOptions options;
  if (!mask.is_none()) options.mask = array_of(mask);
  options.batch = batch > 0 ? batch : static_cast<int64_t>(numbers.size());
  options.joins_runs = joins_runs;
  options.team = &handle.members();
  return {handle, std::make_shared<const Samples>(canonical_samples(handle.field, array_of(noise),
                                                                    array_of(x1), trajectories,
                                                                    options, std::move(numbers)))};
}

// (name, solver)
py::tuple best_on(const SamplesHandle& handle, int nfe, const std::string& prediction,
                  const ScheduleHandle& schedule, const GuidanceWeight& guidance,
                  const py::function& on_progress) {
  const NamedSolver best = best_of_catalogue(
      *handle.samples, nfe, {parse_prediction(prediction), schedule.schedule, guidance},
      [&](double done) { on_progress(done); }, handle.field.members());
  return py::make_tuple(best.name, best.solver);
}

}  // namespace

void bind_sampling(py::module_& module) {
  module.def("usual_tolerance", [](int nfe) { return usual_tolerances(nfe).rtol; });
  py::class_<FieldHandle>(module, "Field")
      .def(py::init(&field_handle), py::arg("field"), py::arg("schedule"), py::arg("team"))
      .def("draw", &draw, py::arg("noise"), py::arg("samples"), py::arg("tolerance"),
           py::arg("evaluations"), py::arg("record"), py::arg("together"), py::arg("batch"),
           py::arg("on_progress"));
  py::class_<Trajectories, std::shared_ptr<Trajectories>>(module, "Trajectories")
      .def("state_at",
           [](const Trajectories& trajectories, double t, const std::vector<int64_t>& samples) {
             return object_of(trajectories.state_at(t, samples));
           });
  py::class_<SamplesHandle>(module, "Samples")
      .def(py::init(&samples_of), py::arg("field"), py::arg("noise"), py::arg("x1"),
           py::arg("trajectories").none(true), py::arg("numbers"), py::arg("batch"),
           py::arg("joins_runs"), py::arg("mask"))
      .def_property_readonly("count", [](const SamplesHandle& h) { return h.samples->count(); });
  module.def("best_of_catalogue", &best_on, py::arg("samples"), py::arg("nfe"),
             py::arg("prediction"), py::arg("schedule"), py::arg("guidance"),
             py::arg("on_progress"));
}

}  // namespace bespoke::python
