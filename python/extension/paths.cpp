#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "bespoke/base/error.h"
#include "bespoke/base/even_numbers.h"
#include "bespoke/base/psnr.h"
#include "bespoke/base/random.h"
#include "bespoke/base/text.h"
#include "bespoke/path/conversion.h"
#include "bespoke/path/guidance_weight.h"
#include "bindings.h"

namespace bespoke::python {

namespace {}  // namespace

const SchedulePtr& MadeSchedule::made() const {
  if (!schedule_) throw usage_error("this Schedule was never made; call Schedule(name)");
  return schedule_;
}

void* ScheduleHandle::operator new(size_t size) {
  void* memory = std::calloc(1, size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void ScheduleHandle::operator delete(void* memory) { std::free(memory); }

namespace {

ScheduleHandle schedule_from(const py::object& description) {
  if (py::isinstance<ScheduleHandle>(description)) return description.cast<ScheduleHandle>();
  if (py::isinstance<py::dict>(description)) return {schedule_from_json(from_python(description))};
  if (!py::isinstance<py::str>(description)) {
    throw usage_error("a schedule is a name, a dict or a Schedule, found {}",
                      std::string(py::str(py::type::of(description).attr("__name__"))));
  }
  return {make_schedule(description.cast<std::string>())};
}

py::object described(const ScheduleHandle& handle) {
  return to_python(handle.schedule->describe());
}

void bind_schedule(py::module_& module) {
  using Handle = ScheduleHandle;
  py::class_<Handle> schedule(
      module, "Schedule",
      "A noise schedule x_t = alpha x_1 + sigma noise on t in [0, 1], 0 = noise and "
      "1 = data.\n\nMade from a name (\"fm-ot\"), a name with its parameters "
      "(\"vp:B=20,b=0.1\"), a file of alphas_cumprod (\"table:FILE\") or a dict as "
      "describe() returns it. schedules() lists the names.");
  schedule.def(py::init(&schedule_from), py::arg("description"))
      .def_property_readonly("name", [](const Handle& h) { return h.schedule->name(); })
      .def_property_readonly(
          "source_std", [](const Handle& h) { return h.schedule->source_std(); },
          "The standard deviation of the noise that samples start from.")
      .def("describe", &described, "The name and parameters, as a solver file has them.")
      .def(
          "alpha", [](const Handle& h, double t) { return h.schedule->alpha(t); }, py::arg("t"),
          "The weight of the data at t.")
      .def(
          "sigma", [](const Handle& h, double t) { return h.schedule->sigma(t); }, py::arg("t"),
          "The weight of the noise at t.")
      .def(
          "log_snr", [](const Handle& h, double t) { return h.schedule->lambda(t); }, py::arg("t"),
          "The log-SNR at t, log(alpha / sigma).")
      .def(
          "time_at_log_snr",
          [](const Handle& h, double value) { return h.schedule->time_at_lambda(value); },
          py::arg("log_snr"), "The time with this log-SNR, clipped to [0, 1].")
      .def(
          "trained_time",
          [](const Handle& h, double t) { return h.schedule->trained_time(t).value; }, py::arg("t"),
          "The time on the whole path, which networks count, of a time on a part of it.")
      .def("__eq__",
           [](const Handle& left, const py::object& right) {
             return py::isinstance<Handle>(right) &&
                    left.schedule->describe() == right.cast<Handle>().schedule->describe();
           })
      .def("__hash__", [](const Handle& h) { return py::hash(py::str(h.schedule->name())); })
      .def("__repr__", [](const Handle& h) {
        return "Schedule(" + py::repr(described(h)).cast<std::string>() + ")";
      });
  // Copies and pickles are made from the description.
  schedule.def("__reduce__", [schedule](const Handle& h) {
    return py::make_tuple(schedule, py::make_tuple(described(h)));
  });
  module.def("schedules", [] {
    py::list rows;
    for (const auto& entry : schedule_registry()) {
      py::dict defaults;
      for (const auto& [name, value] : entry.defaults) defaults[py::str(name)] = value;
      rows.append(py::make_tuple(entry.name, entry.description, defaults));
    }
    return rows;
  });
}

// A sample's own w of a range, spread evenly over it; 1 where all have the same.
double own_weight(const GuidanceWeight& weight, uint64_t sample) {
  if (!weight.range) return 1;
  return weight.range->from + weight.range->width() * even_number(0, sample);
}

void bind_guidance(py::module_& module) {
  py::class_<GuidanceWeight>(module, "Guidance")
      .def(py::init<double>())
      .def(
          py::init([](const std::string& text) { return parse_guidance(text, false, "guidance"); }))
      .def("at", [](const GuidanceWeight& weight, double t,
                    uint64_t sample) { return weight.at(t).value * own_weight(weight, sample); })
      .def_property_readonly("is_zero", &GuidanceWeight::is_zero)
      .def("describe", [](const GuidanceWeight& weight) { return to_python(describe(weight)); })
      .def("__str__", [](const GuidanceWeight& weight) { return to_string(weight); });
}

// The calls of a model at some times, as four rows of numbers.
using Numbers = std::vector<double>;
struct Calls {
  Numbers times, scales, states, outputs;

  void add(const ModelCall& call) {
    times.push_back(call.time);
    scales.push_back(call.scale);
    states.push_back(call.velocity.state);
    outputs.push_back(call.velocity.output);
  }
  py::tuple tuple() const { return py::make_tuple(times, scales, states, outputs); }
};

// What arrays are multiplied by to get velocities of a model.
class Conversion {
 public:
  Conversion(const std::string& prediction, const ScheduleHandle& handle, double epsilon)
      : prediction_(parse_prediction(prediction)),
        schedule_(handle.schedule),
        margin_(safe_margin(epsilon)) {}

  py::tuple velocity(const Numbers& times) const {
    Calls calls;
    for (const double t : times) calls.add(velocity_call(prediction_, *schedule_, t, margin_));
    return calls.tuple();
  }

  // The time to call at, and the two factors of the data prediction.
  py::tuple data(const Numbers& times) const {
    Numbers safe, states, outputs;
    for (const double t : times) {
      const DataCall call = data_call(prediction_, *schedule_, t, margin_);
      safe.push_back(call.time);
      states.push_back(call.data.state);
      outputs.push_back(call.data.output);
    }
    return py::make_tuple(safe, states, outputs);
  }

 private:
  Prediction prediction_;
  SchedulePtr schedule_;
  double margin_;
};

py::array_t<double> normal_noise(int64_t seed, int64_t first, int64_t count, int64_t size) {
  if (seed < 0 || first < 0) {
    throw usage_error("seed and first must not be negative, found {} and {}", seed, first);
  }
  py::array_t<double> noise({count, size});
  for (int64_t k = 0; k < count; ++k) {
    fill_normal(static_cast<uint64_t>(seed), static_cast<uint64_t>(first + k),
                noise.mutable_data(k), size);
  }
  return noise;
}

}  // namespace

void bind_paths(py::module_& module) {
  bind_schedule(module);
  bind_guidance(module);
  module.def("predictions", &prediction_names);
  module.def("parse_prediction",
             [](const std::string& name) { return to_string(parse_prediction(name)); });
  py::class_<Conversion>(module, "Conversion")
      .def(py::init<std::string, ScheduleHandle, double>(), py::arg("prediction"),
           py::arg("schedule"), py::arg("epsilon"))
      .def("velocity", &Conversion::velocity)
      .def("data", &Conversion::data);
  module.def("normal_noise", &normal_noise);
  module.def("mean_psnr", &mean_psnr);
  module.def("psnr_error", &psnr_error);
  module.def("mean_snr", &mean_snr);
  module.def("quantile", &quantile);
}

}  // namespace bespoke::python
