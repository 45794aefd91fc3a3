// The program that `bespoke` becomes for whatever needs LibTorch.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "commands/commands.h"
#include "commands/plain_commands.h"
#include "program/programs.h"
#include "runs/team.h"
#include "runs/version.h"

namespace bespoke {

namespace {

const Program& whole_program() {
  static const Program program = [] {
    std::map<std::string, AddCommand> commands = plain_commands();
    commands.insert({{"sample", add_sample_command},
                     {"infill", add_infill_command},
                     {"compare", add_compare_command},
                     {"check", add_check_command},
                     {"pairs", add_pairs_command},
                     {"distill", add_distill_command},
                     {"demo", add_demo_command}});
    return bespoke_program(commands, version_text("bespoke"));
  }();
  return program;
}

// What several processes can do together; of anything else each would do all, to the same files.
void check_team(const std::vector<std::string>& arguments) {
  const size_t at = place_of_command(arguments);
  if (team().size() == 1 || at == arguments.size()) return;
  const CommandRow* row = find_command(solver_commands(), arguments[at]);
  if (row == nullptr || row->shares_work) return;
  std::vector<std::string> shared;
  for (const auto& each : solver_commands()) {
    if (each.shares_work) shared.push_back(each.name);
  }
  throw usage_error("{} is work for one process, {} were started; those of {} share theirs",
                    row->name, team().size(), fmt::join(shared, ", "));
}

}  // namespace

void run_command(const std::vector<std::string>& arguments) {
  run_command_line(whole_program(), arguments);
}

}  // namespace bespoke

int main(int argc, char** argv) {
  using namespace bespoke;
  bespoke::detail::guard_standard_streams();
  catch_interrupts();
  const auto work = [&] {
    join_team();
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    check_team(arguments);
    run_command_line(whole_program(), arguments);
  };
  return end_team(run_reporting_errors("bespoke", work, say_alone));
}
