#include "bespoke/base/error.h"

#include <exception>
#include <string>

#include "bindings.h"

namespace bespoke::python {

namespace {

// The classes are written in Python (bespoke/errors.py), so that the array code raises the same.
void raise(const Error& error) {
  const py::module_ errors = py::module_::import("bespoke.errors");
  const char* name = error.kind() == ErrorKind::diverged ? "DivergedError" : "Error";
  PyErr_SetObject(errors.attr(name).ptr(), py::str(error.what()).ptr());
}

}  // namespace

void bind_errors() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

// By way of text: a description of some numbers, read rarely.
py::object to_python(const nlohmann::json& json) {
  return py::module_::import("json").attr("loads")(json.dump());
}

nlohmann::json from_python(const py::object& value) {
  try {
    const auto text =
        py::module_::import("json").attr("dumps")(value, py::arg("allow_nan") = false);
    return nlohmann::json::parse(text.cast<std::string>());
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) throw;
    throw bad_input(
        "{} holds what a file cannot: numbers must be finite, all else text, lists "
        "or dicts",
        py::repr(value).cast<std::string>());
  }
}

}  // namespace bespoke::python
