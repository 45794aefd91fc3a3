#include "options/retired_options.h"

#include <fmt/format.h>

#include <vector>

#include "bespoke/base/error.h"

namespace bespoke {

void add_retired_option(CLI::App& command, const std::string& name, const std::string& instead) {
  const auto refuse = [name, instead](const std::vector<std::string>&) {
    throw usage_error("{} is gone; {}", name, instead);
  };
  command.add_option_function<std::vector<std::string>>(name, refuse)->expected(0, 1)->group("");
}

void add_retired_solver_options(CLI::App& command, const std::string& example) {
  const auto retire = [&](const std::string& name, const std::string& what,
                          const std::string& form) {
    add_retired_option(command, name,
                       fmt::format("write {} in the solver's name: {}{}", what, example, form));
  };
  retire("--grid", "the grid", "/karras");
  retire("--via", "the schedule", "@cosine");
  retire("--sigma0", "the preconditioning", "@sigma0=2");
  retire("--lower-order-final", "it", "+lower-order-final");
}

}  // namespace bespoke
