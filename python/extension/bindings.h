#pragma once

#include <pybind11/pybind11.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "bespoke/path/schedule.h"

// The module bespoke._core: bespoke::core as the Python package needs it. What users see is
// written in Python around it.
namespace bespoke::python {

namespace py = pybind11;

// Python cannot hold a pointer to const.
struct ScheduleHandle {
  SchedulePtr schedule;
};

py::object to_python(const nlohmann::json& json);
nlohmann::json from_python(const py::object& value);

void bind_errors();
void bind_paths(py::module_& module);
void bind_solvers(py::module_& module);
void bind_sampling(py::module_& module);
void bind_distillation(py::module_& module);

}  // namespace bespoke::python
