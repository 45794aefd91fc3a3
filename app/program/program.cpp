#include "program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/text.h"
#include "options/number_checks.h"
#include "program/invocation.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kExitCodes[] =
    "Exit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 device or memory, 5 diverged, "
    "130 interrupted.";

// Lists a line for each command; what a command says of itself is in its own help.
class CommandList : public CLI::Formatter {
 public:
  explicit CommandList(const Program& program) : program_(program) {}

  std::string make_subcommand(const CLI::App* command) const override {
    const CommandRow* row = find_command(program_.commands, command->get_name());
    return fmt::format("  {:<12} {}\n", command->get_name(), row == nullptr ? "" : row->summary);
  }

 private:
  const Program& program_;
};

// All option names that the chosen subcommand understands; one without a group is refused, with
// what to write instead.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  const auto add = [&names](const CLI::App& level) {
    for (const auto* option : level.get_options()) {
      if (option->get_group().empty()) continue;
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    }
  };
  add(app);
  for (const auto* command : app.get_subcommands()) add(*command);
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

// One sentence for an argument CLI11 could not place.
std::string explain_extra(const CLI::App& app) {
  const auto extras = app.remaining(true);
  if (extras.empty()) return "unexpected arguments; see --help";
  const std::string word = extras.front().substr(0, extras.front().find('='));
  if (word == "--config") return "write --config FILE before the command";
  const std::string suggestion = nearest(word, option_names(app));
  return fmt::format("unexpected argument '{}'; {}", word,
                     suggestion.empty() ? "see --help" : "did you mean '" + suggestion + "'?");
}

// The same for a key of the --config file; CLI11's message ends with "section.key".
std::string explain_config(const CLI::App& app, const std::string& message) {
  const std::string name = message.substr(message.rfind(' ') + 1);
  const auto parts = split(name, '.');
  std::vector<std::string> keys;
  for (const auto* command : app.get_subcommands(nullptr)) {
    if (command->get_name() != parts.front() || parts.size() != 2) continue;
    for (const auto* option : command->get_options()) {
      if (option->get_group().empty()) continue;
      for (const auto& key : option->get_lnames()) keys.push_back(key);
    }
  }
  if (keys.empty()) return unknown_name("section of --config:", parts.front(), command_names(app));
  return unknown_name("option in [" + parts[0] + "] of --config:", parts[1], keys);
}

// CLI11 only says that a subcommand is missing; a mistyped one deserves a suggestion.
void check_command(const CLI::App& app, const Program& program,
                   const std::vector<std::string>& arguments) {
  const size_t at = place_of_command(arguments);
  if (at == arguments.size()) return;
  const auto moved = program.moved.find(arguments[at]);
  if (moved != program.moved.end()) throw usage_error("{}", moved->second);
  const auto names = command_names(app);
  if (std::find(names.begin(), names.end(), arguments[at]) == names.end()) {
    throw Error(ErrorKind::usage, unknown_name("command", arguments[at], names));
  }
}

// LibTorch appends a stack trace; the first line is what went wrong.
std::string first_line(const std::exception& error) {
  if (const auto* json = dynamic_cast<const nlohmann::json::exception*>(&error)) {
    return plain_words(*json);
  }
  const std::string line = split(error.what(), '\n').front();
  return line.empty() ? "an error without a reason" : line;
}

// The option that does what the library advises in words of its own.
std::string hint(const Error& error) {
  return error.kind() == ErrorKind::device && is_out_of_memory(error) ? " (--dtype bf16)" : "";
}

// What a shell reports of a program whose reader went away.
constexpr int kReaderGone = 128 + SIGPIPE;

// Output that could not be written is a failure, however well the work went.
void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    if (errno == EPIPE) throw std::system_error(EPIPE, std::generic_category());
    throw Error(ErrorKind::failed, "cannot write the output; is the disk full?");
  }
}

}  // namespace

void run_command_line(const Program& program, const std::vector<std::string>& arguments) {
  CLI::App app(program.introduction, program.name);
  app.formatter(std::make_shared<CommandList>(program));
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.set_version_flag("--version", program.version);
  app.set_config("--config", "", "read options from a TOML file, one [section] per command");
  app.allow_config_extras(CLI::config_extras_mode::error);
  for (const auto& row : program.commands) {
    const auto add = program.contained.find(row.name);
    if (add != program.contained.end()) {
      add->second(app);
    } else {
      app.add_subcommand(row.name, row.summary);
    }
  }
  check_numbers(app);
  check_command(app, program, arguments);
  record_invocation(arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& success) {
    app.exit(success);  // --help and --version
  } catch (const CLI::ExtrasError&) {
    throw Error(ErrorKind::usage, explain_extra(app));
  } catch (const CLI::ConfigError& error) {
    throw Error(ErrorKind::usage, explain_config(app, error.what()));
  } catch (const CLI::Error& error) {
    throw Error(ErrorKind::usage, fmt::format("{} (see --help)", error.what()));
  }
}

int run_reporting_errors(const std::string& program, const std::function<void()>& work,
                         const std::function<void(const std::string&)>& say) {
  const auto report = [&](const std::exception& error) {
    const bool memory = is_out_of_memory(error);
    say(program + ": " +
        (memory ? "out of memory; use a smaller --batch or --count" : first_line(error)));
    return static_cast<int>(memory ? ErrorKind::device : ErrorKind::failed);
  };
  try {
    work();
    throw_if_interrupted();
    flush_output();
    return 0;
  } catch (const Error& error) {
    say(fmt::format("{}: {}{}", program, error.what(), hint(error)));
    return error.exit_code();
  } catch (const std::system_error& error) {
    // Who reads only the head of a list wants no word about the rest.
    return error.code().value() == EPIPE ? kReaderGone : report(error);
  } catch (const std::exception& error) {
    return report(error);
  }
}

}  // namespace bespoke
