#pragma once

#include "program/program.h"

namespace bespoke {

// A launcher's main: runs the commands that the launcher contains and prints the help of the
// program; for all else it becomes the program of the same name that is linked with LibTorch.
int launch(const Program& program, char** argv);

// Becomes that program from within a command, for what only LibTorch can do. Does not return but to
// throw.
[[noreturn]] void hand_over();

}  // namespace bespoke
