// `bespoke-train`: its help at once, and the way to the program.

#include "program/launch.h"
#include "program/programs.h"

int main(int, char** argv) { return bespoke::launch(bespoke::training_program({}), argv); }
