#pragma once

#include "program/program.h"

namespace bespoke {

// The two programs, with the commands that an executable contains.
Program bespoke_program(std::map<std::string, AddCommand> contained,
                        const std::string& version = "");
Program training_program(std::map<std::string, AddCommand> contained,
                         const std::string& version = "");

}  // namespace bespoke
