#pragma once

#include <functional>
#include <string>

#include "bespoke/base/team.h"
#include "bespoke/recipe/mpi_team.h"

namespace bespoke {

// The processes that work on this command: this one, or all that mpirun started.
Team& team();

// Joins them. From then on only the first of them speaks.
void join_team();

// Whether this is the one that speaks and writes files.
bool is_first();

// What the first of them finds out, told to all. Where it fails, all fail.
std::string from_first(const std::function<std::string()>& work);

// Where this one stands among those on its machine.
LocalPlace place_on_machine();

// What the last words of this process are, where they are not those of all: see end_team.
void say_alone(const std::string& message);

// The end of this process: of one that failed, the end of all. What fails fails for all at once as
// a rule; the first then says why, before others that only say it again.
int end_team(int exit_code);

}  // namespace bespoke
