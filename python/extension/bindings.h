#pragma once

#include <pybind11/pybind11.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "bespoke/path/schedule.h"

// The module bespoke._core: bespoke::core as the Python package needs it. What users see is
// written in Python around it.
namespace bespoke::python {

namespace py = pybind11;

// A schedule, or none of an object that Python allocated and never made.
class MadeSchedule {
 public:
  MadeSchedule(SchedulePtr schedule) : schedule_(std::move(schedule)) {}  // NOLINT: as it is

  operator const SchedulePtr&() const { return made(); }
  const Schedule& operator*() const { return *made(); }
  const Schedule* operator->() const { return made().get(); }

 private:
  const SchedulePtr& made() const;

  SchedulePtr schedule_;
};

// Python cannot hold a pointer to const. What Schedule.__new__ allocates is zero, not what was
// there before: __init__ may never be called.
struct ScheduleHandle {
  MadeSchedule schedule;

  static void* operator new(size_t size);
  static void operator delete(void* memory);
};

py::object to_python(const nlohmann::json& json);
nlohmann::json from_python(const py::object& value);

void bind_errors();
void bind_paths(py::module_& module);
void bind_solvers(py::module_& module);
void bind_sampling(py::module_& module);
void bind_distillation(py::module_& module);

}  // namespace bespoke::python
