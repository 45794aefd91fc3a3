#include "bespoke/version.h"
#include "bindings.h"

PYBIND11_MODULE(_core, module) {
  using namespace bespoke::python;
  module.doc() = "bespoke::core, for the package around it.";
  module.attr("__version__") = BESPOKE_VERSION;
  bind_errors();
  bind_paths(module);
  bind_solvers(module);
  bind_sampling(module);
  bind_distillation(module);
}
