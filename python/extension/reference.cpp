#include <pybind11/stl.h>

#include <vector>

#include "bespoke/distill/reference_tolerance.h"
#include "bespoke/solver/dormand_prince.h"
#include "bindings.h"

namespace bespoke::python {

namespace {

py::tuple to_tuple(const Combination& sum) { return py::make_tuple(sum.terms, sum.coefficients); }

}  // namespace

void bind_reference(py::module_& module) {
  module.def("usual_tolerance", [](int nfe) { return usual_tolerances(nfe).rtol; });
  py::class_<DormandPrince>(module, "DormandPrince")
      .def(py::init([](int64_t count, double tolerance, double start, double end,
                       int64_t most_evaluations) {
             return DormandPrince(count, {{tolerance, tolerance}, start, end, most_evaluations, 0});
           }),
           py::arg("count"), py::arg("tolerance"), py::arg("start"), py::arg("end"),
           py::arg("most_evaluations"))
      .def_property_readonly("active", &DormandPrince::active)
      .def_property_readonly("done", &DormandPrince::done)
      .def_property_readonly("times", &DormandPrince::times)
      .def_property_readonly("progress", &DormandPrince::progress)
      .def_property_readonly("evaluations", &DormandPrince::evaluations)
      .def("guess", &DormandPrince::guess)
      .def("guess_times", &DormandPrince::guess_times)
      .def("guess_state", [](const DormandPrince& run) { return to_tuple(run.guess_state()); })
      .def("begin", &DormandPrince::begin)
      .def("stage_times", &DormandPrince::stage_times)
      .def("stage_state",
           [](const DormandPrince& run, size_t stage) { return to_tuple(run.stage_state(stage)); })
      .def("error", [](const DormandPrince& run) { return to_tuple(run.error()); })
      .def("middle", [](const DormandPrince& run) { return to_tuple(run.middle()); })
      .def("decide", &DormandPrince::decide)
      .def("arrived", &DormandPrince::arrived)
      .def("retire", &DormandPrince::retire);
  module.attr("STAGES") = py::int_(size_t{DormandPrince::kStages});
  module.def("dense_place", [](const std::vector<double>& times, double time) {
    const auto [step, weights] = dense_place(times, time);
    return py::make_tuple(step, weights.state);
  });
}

}  // namespace bespoke::python
