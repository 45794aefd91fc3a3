#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/solver/c_header.h"
#include "bespoke/solver/catalogue.h"
#include "bespoke/solver/exported_text.h"
#include "bespoke/solver/grid.h"
#include "bespoke/solver/imported_solver.h"
#include "bespoke/solver/lowering.h"
#include "bespoke/solver/named_solver.h"
#include "bespoke/solver/solver_file.h"
#include "bindings.h"

namespace bespoke::python {

namespace {

using Numbers = std::vector<double>;

void bind_ns_solver(py::module_& module) {
  py::class_<NsSolver>(module, "NsSolver")
      .def(py::init([](Numbers times, Numbers a, std::vector<Numbers> b, double start_scale) {
             NsSolver solver{std::move(times), std::move(a), std::move(b), start_scale};
             solver.validate();
             return solver;
           }),
           py::arg("times"), py::arg("a"), py::arg("b"), py::arg("start_scale") = 1.0)
      .def_readonly("times", &NsSolver::times)
      .def_readonly("a", &NsSolver::a)
      .def_readonly("b", &NsSolver::b)
      .def_readonly("start_scale", &NsSolver::start_scale)
      .def_readonly("guided", &NsSolver::guided)
      .def_readonly("c", &NsSolver::c)
      .def_property_readonly("nfe", &NsSolver::nfe)
      .def("__eq__", [](const NsSolver& left, const NsSolver& right) { return left == right; });
}

// The solvers of some files of one field, each with all that is known of it.
SolverFile joined(std::string name, const std::vector<SolverFile>& files) {
  SolverFile all{std::move(name), files.front().field, {}};
  for (const SolverFile& file : files) {
    for (const auto& filed : file.solvers) {
      const int nfe = filed.solver.nfe();
      if (all.has(nfe)) throw bad_input("two solvers have {} evaluations; keep one of them", nfe);
      all.put({filed.solver, to_json(file.provenance_of(nfe))});
    }
  }
  return all;
}

// The same of a field whose data predictions are clipped so, as describe() says it, or not (None).
SolverFile with_clip(SolverFile file, const py::object& clip) {
  file.field.clip.reset();
  if (!clip.is_none()) file.field.clip = clip_from_json(from_python(clip), "clip");
  return file;
}

py::object clip_of(const SolverFile& file) {
  return file.field.clip ? to_python(describe(*file.field.clip)) : py::object(py::none());
}

// All that Python knows of the format of solver files.
void bind_solver_file(py::module_& module) {
  py::class_<SolverFile>(module, "SolverFile")
      .def(py::init([](std::string name, NsSolver solver, const std::string& prediction,
                       const ScheduleHandle& schedule, const GuidanceWeight& guidance,
                       const py::object& provenance) {
             return SolverFile{std::move(name),
                               {parse_prediction(prediction), schedule.schedule, guidance},
                               {{std::move(solver), from_python(provenance)}}};
           }),
           py::arg("name"), py::arg("solver"), py::arg("prediction"), py::arg("schedule"),
           py::arg("guidance"), py::arg("provenance"))
      .def_static("read", [](const std::string& path) { return read_solver_file(path); })
      .def_static("parse", &parse_solver_file)
      .def("write",
           [](const SolverFile& file, const std::string& path) { write_solver_file(path, file); })
      .def("text", [](const SolverFile& file) { return to_json_text(file); })
      .def_readonly("name", &SolverFile::name)
      .def_property_readonly("nfes", &SolverFile::nfes)
      .def("only", &SolverFile::only, py::arg("nfe"))
      .def("with_clip", &with_clip, py::arg("clip"))
      .def_property_readonly("clip", &clip_of)
      .def_static("joined", &joined, py::arg("name"), py::arg("files"))
      .def_property_readonly("solver", [](const SolverFile& file) { return file.at(); })
      .def_property_readonly(
          "prediction", [](const SolverFile& file) { return to_string(file.field.prediction); })
      .def_property_readonly(
          "schedule", [](const SolverFile& file) { return ScheduleHandle{file.field.schedule}; })
      .def_property_readonly("guidance", [](const SolverFile& file) { return file.field.guidance; })
      .def_property_readonly("time",
                             [](const SolverFile& file) { return to_python(file.field.time); })
      .def_property_readonly("provenance", [](const SolverFile& file) {
        return to_python(to_json(file.provenance_of()));
      });
}

void bind_names(py::module_& module) {
  module.def(
      "named_solver",
      [](const std::string& name, int nfe, const ScheduleHandle& schedule,
         const std::string& prediction, const GuidanceWeight& guidance) {
        return resolve_solver(SolverName::parse(name), nfe,
                              {parse_prediction(prediction), schedule.schedule, guidance});
      },
      py::arg("name"), py::arg("nfe"), py::arg("schedule"), py::arg("prediction"),
      py::arg("guidance"));
  module.def("catalogue", [] {
    py::list rows;
    for (const auto& entry : catalogue()) {
      rows.append(py::make_tuple(entry.name, entry.family, entry.description, entry.order,
                                 entry.evaluations_per_step, entry.default_grid));
    }
    return rows;
  });
  module.def("grids", [] {
    py::list rows;
    for (const auto& entry : grid_registry()) {
      rows.append(py::make_tuple(entry.name, entry.description, entry.options));
    }
    return rows;
  });
}

template <class Lowered>
py::tuple lowered_tuple(const Lowered& lowered) {
  return py::make_tuple(lowered.times, lowered.sigmas, lowered.a, lowered.b, lowered.start_scale);
}

void bind_lowering(py::module_& module) {
  module.def("lower", [](const NsSolver& solver, const std::string& prediction,
                         const ScheduleHandle& schedule, double epsilon) {
    return lowered_tuple(
        lower(solver, parse_prediction(prediction), *schedule.schedule, safe_margin(epsilon)));
  });
  module.def("lower_to_sigmas", [](const NsSolver& solver, const ScheduleHandle& schedule,
                                   double epsilon) {
    return lowered_tuple(lower_to_sigmas(solver, *schedule.schedule, safe_margin(epsilon)));
  });
}

void bind_other_tools(py::module_& module) {
  module.def("import_solvers", [](const py::object& description, const std::string& source) {
    return import_solvers(from_python(description), source);
  });
  module.def("read_imported", [](const std::string& path) { return read_imported(path); });
  module.def("c_header",
             [](const SolverFile& file, const std::string& prediction, const std::string& name) {
               return c_header(file, {parse_prediction(prediction), name});
             });
  module.def("write_text", [](const std::string& path, const std::string& text) {
    detail::write_file_atomically(path, text);
  });
  module.def("markdown_text", &markdown_text);
  module.def("latex_text", &latex_text);
  module.def("sigmas_text", &sigmas_text);
  module.def("diffusers_config_text", &diffusers_config_text);
}

}  // namespace

void bind_solvers(py::module_& module) {
  bind_ns_solver(module);
  bind_solver_file(module);
  bind_names(module);
  bind_lowering(module);
  bind_other_tools(module);
}

}  // namespace bespoke::python
