#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/base/team.h"
#include "bespoke/run/array_field.h"
#include "bespoke/run/arrays.h"

// The core's Arrays, ArrayModel and Team, answered in Python: by bespoke.arrays.Arrays,
// bespoke.field.Field and bespoke.team.Team.
namespace bespoke::python {

namespace py = pybind11;

inline Array array_of(py::object object) { return Array::of(std::move(object)); }
inline const py::object& object_of(const Array& array) { return array.as<py::object>(); }

// What went on in Python while a method of the core was running. Where interruptions are caught, a
// KeyboardInterrupt in the middle of a question is answered as a solver that diverged, and so are
// all questions after it: the method then ends with the best it has.
class Questions {
 public:
  void catch_interruptions(bool catches) {
    catches_ = catches;
    interrupted_ = false;
  }
  bool interrupted() const { return interrupted_; }

  template <class Ask>
  auto ask(const Ask& question) {
    if (interrupted_) refuse();
    try {
      return question();
    } catch (py::error_already_set& error) {
      translate(error);
      throw;
    }
  }

 private:
  [[noreturn]] static void refuse();
  void translate(py::error_already_set& error);

  bool catches_ = false, interrupted_ = false;
};

std::shared_ptr<const Arrays> python_arrays(py::object arrays,
                                            std::shared_ptr<Questions> questions);

// `field` predicts what `prediction` says; its arrays are those of python_arrays.
std::shared_ptr<const ArrayModel> python_model(py::object field,
                                               std::shared_ptr<const Arrays> arrays,
                                               std::shared_ptr<Questions> questions);

std::unique_ptr<Team> python_team(py::object team);

}  // namespace bespoke::python
