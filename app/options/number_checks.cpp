#include "options/number_checks.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>

namespace bespoke {

namespace {

bool is_number(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

// What is no number at all is left for CLI11 to refuse.
std::string problem_of_integer(const std::string& text) {
  errno = 0;
  std::strtoll(text.c_str(), nullptr, 0);
  return errno == ERANGE ? fmt::format("{} is too large a number", text) : "";
}

std::string problem_of_number(const std::string& text) {
  double value = 0;
  return is_number(text, value) && !std::isfinite(value)
             ? fmt::format("must be finite, found {}", text)
             : "";
}

}  // namespace

CLI::Validator positive_number() {
  return CLI::Validator(
      [](std::string& text) {
        double value = 0;
        return is_number(text, value) && !(value > 0)
                   ? fmt::format("must be more than 0, found {}", text)
                   : std::string();
      },
      "");
}

void check_numbers(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands(nullptr)) {
    for (CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name();
      if (type.rfind("INT", 0) == 0 || type.rfind("UINT", 0) == 0) {
        option->check(CLI::Validator(problem_of_integer, ""));
      } else if (type.rfind("FLOAT", 0) == 0) {
        option->check(CLI::Validator(problem_of_number, ""));
      }
    }
  }
}

}  // namespace bespoke
