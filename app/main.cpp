#include <fmt/format.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "bespoke/base/text.h"
#include "bespoke/version.h"
#include "commands/commands.h"
#include "options/number_checks.h"
#include "runs/invocation.h"
#include "runs/team.h"

namespace bespoke {

using namespace detail;
namespace {

constexpr char kIntroduction[] =
    "Bespoke finds and runs fast solvers for diffusion and flow models.\n\n"
    "Examples:\n"
    "  bespoke demo                                      a real image model, start to finish\n"
    "  bespoke solvers                                   every solver by name\n"
    "  bespoke compare --nfe 4-16+4                      PSNR of solvers on an analytic model\n"
    "  bespoke check model.json                          does the card describe the network?\n"
    "  bespoke distill --model model.json --nfe 8 -o run the solver of 8 evaluations for it\n"
    "  bespoke solver dpm++2m --nfe 8 --schedule vp -o dpm.solver.json\n"
    "  bespoke show dpm.solver.json\n"
    "  bespoke export run/bns.solver.json --to c -o solver.h\n";

constexpr char kExitCodes[] =
    "Exit codes: 0 done, 1 failed, 2 usage, 3 bad input, 4 device or memory, 5 diverged, "
    "130 interrupted.";

// All option names that the chosen subcommand understands.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  const auto add = [&names](const CLI::App& level) {
    for (const auto* option : level.get_options()) {
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
      for (const auto& key : option->get_lnames()) keys.push_back(key);
    }
  }
  if (keys.empty()) return unknown_name("section of --config:", parts.front(), command_names(app));
  return unknown_name("option in [" + parts[0] + "] of --config:", parts[1], keys);
}

// What several processes can do together; of anything else each would do all, to the same files.
void check_team(const std::string& command) {
  static const std::vector<std::string> kShared = {"pairs", "distill", "compare"};
  if (team().size() == 1) return;
  if (std::find(kShared.begin(), kShared.end(), command) == kShared.end()) {
    throw usage_error("{} is work for one process, {} were started; those of {} share theirs",
                      command, team().size(), fmt::join(kShared, ", "));
  }
}

// CLI11 only says that a subcommand is missing; a mistyped one deserves a suggestion. The only
// option before a command that takes a value is --config.
void check_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  size_t at = 0;
  while (at < arguments.size() && arguments[at].rfind('-', 0) == 0) {
    at += arguments[at] == "--config" ? 2 : 1;
  }
  if (at >= arguments.size()) return;
  const auto names = command_names(app);
  if (std::find(names.begin(), names.end(), arguments[at]) == names.end()) {
    throw Error(ErrorKind::usage, unknown_name("command", arguments[at], names));
  }
  check_team(arguments[at]);
}

// The arguments, without the program's name, as one command.
int parse_and_run(const std::vector<std::string>& arguments) {
  CLI::App app(kIntroduction, "bespoke");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.set_version_flag("--version",
                       fmt::format("bespoke {} (LibTorch {}.{}.{})", BESPOKE_VERSION,
                                   TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH));
  app.set_config("--config", "", "read options from a TOML file, one [section] per command");
  app.allow_config_extras(CLI::config_extras_mode::error);
  add_solvers_command(app);
  add_solver_command(app);
  add_show_command(app);
  add_export_command(app);
  add_import_command(app);
  add_sample_command(app);
  add_infill_command(app);
  add_compare_command(app);
  add_check_command(app);
  add_pairs_command(app);
  add_distill_command(app);
  add_train_command(app);
  add_progressive_command(app);
  add_demo_command(app);
  check_numbers(app);
  check_command(app, arguments);
  record_invocation(arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return 0;
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help and --version
  } catch (const CLI::ExtrasError&) {
    throw Error(ErrorKind::usage, explain_extra(app));
  } catch (const CLI::ConfigError& error) {
    throw Error(ErrorKind::usage, explain_config(app, error.what()));
  } catch (const CLI::Error& error) {
    throw Error(ErrorKind::usage, fmt::format("{} (see --help)", error.what()));
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

int report_other(const std::exception& error) {
  const bool memory = is_out_of_memory(error);
  say_alone("bespoke: " +
            (memory ? "out of memory; use a smaller --batch or --count" : first_line(error)));
  return static_cast<int>(memory ? ErrorKind::device : ErrorKind::failed);
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

int run(int argc, char** argv) {
  try {
    join_team();
    const int code = parse_and_run({argv + 1, argv + argc});
    throw_if_interrupted();
    flush_output();
    return code;
  } catch (const Error& error) {
    say_alone(fmt::format("bespoke: {}{}", error.what(), hint(error)));
    return error.exit_code();
  } catch (const std::system_error& error) {
    // Who reads only the head of a list wants no word about the rest.
    return error.code().value() == EPIPE ? kReaderGone : report_other(error);
  } catch (const std::exception& error) {
    return report_other(error);
  }
}

}  // namespace

void run_command(const std::vector<std::string>& arguments) { parse_and_run(arguments); }

}  // namespace bespoke

int main(int argc, char** argv) {
  bespoke::detail::guard_standard_streams();
  bespoke::catch_interrupts();
  return bespoke::end_team(bespoke::run(argc, argv));
}
