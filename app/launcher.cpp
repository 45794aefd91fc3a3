// `bespoke`: what needs no LibTorch, at once, and the way to all else.

#include "commands/export_command.h"
#include "commands/plain_commands.h"
#include "program/launch.h"
#include "program/programs.h"
#include "runs/checkpoint_file.h"

namespace bespoke {

// What plain commands leave to LibTorch.
std::string torchscript_bytes(const ExportCommandOptions&) { hand_over(); }
NamedTables read_checkpoint_tables(const std::string&, const std::string&) { hand_over(); }

}  // namespace bespoke

int main(int, char** argv) {
  return bespoke::launch(bespoke::bespoke_program(bespoke::plain_commands()), argv);
}
