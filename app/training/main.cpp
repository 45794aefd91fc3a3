// The program that `bespoke-train` becomes.

#include "bespoke/base/error.h"
#include "bespoke/base/message.h"
#include "bespoke/base/progress.h"
#include "program/programs.h"
#include "runs/team.h"
#include "runs/version.h"
#include "training/training_commands.h"

int main(int argc, char** argv) {
  using namespace bespoke;
  bespoke::detail::guard_standard_streams();
  catch_interrupts();
  const auto work = [&] {
    join_team();
    if (team().size() > 1) {
      throw usage_error("bespoke-train is work for one process, {} were started", team().size());
    }
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    run_command_line(training_program(added_training_commands(), version_text("bespoke-train")),
                     arguments);
  };
  return end_team(run_reporting_errors("bespoke-train", work, say_alone));
}
