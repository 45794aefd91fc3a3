#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "bespoke/run/samples.h"
#include "python_arrays.h"

namespace bespoke::python {

// A field that Python answers for, with the team that works on it.
struct FieldHandle {
  std::shared_ptr<Questions> questions;
  std::shared_ptr<const Arrays> arrays;
  std::shared_ptr<const SampledField> field;
  std::shared_ptr<Team> team;  // null: a process on its own

  Team& members() const { return team ? *team : alone(); }
};

struct SamplesHandle {
  FieldHandle field;
  std::shared_ptr<const Samples> samples;
};

}  // namespace bespoke::python
