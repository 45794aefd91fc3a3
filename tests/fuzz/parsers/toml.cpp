#include <CLI/CLI.hpp>

#include "bespoke/base/error.h"
#include "fuzz/parser.h"
#include "options/number_checks.h"

namespace bespoke::fuzz {

// A --config file, for a command with an option of every kind.
static const Registered toml("toml", [](const std::string& bytes) {
  const MemoryFile file(bytes);
  CLI::App app("", "bespoke");
  app.require_subcommand(1);
  app.set_config("--config");
  app.allow_config_extras(CLI::config_extras_mode::error);
  CLI::App& command = *app.add_subcommand("sample");
  int64_t count = 0;
  double tolerance = 0;
  std::string output;
  std::vector<std::string> conditions;
  bool quiet = false;
  command.add_option("--count", count)->check(positive_number());
  command.add_option("--tolerance", tolerance);
  command.add_option("-o,--output", output);
  command.add_option("--cond", conditions);
  command.add_flag("--quiet", quiet);
  check_numbers(app);
  try {
    app.parse(std::vector<std::string>{"sample", file.path(), "--config"});  // from the last on
  } catch (const CLI::Error& error) {
    throw usage_error("{}", error.what());
  }
});

}  // namespace bespoke::fuzz
