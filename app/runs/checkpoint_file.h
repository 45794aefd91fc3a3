#pragma once

#include <string>

#include "bespoke/solver/learned_solver.h"

namespace bespoke {

// The tensors of a file that torch.save wrote, by the keys and places that lead to them
// ("ema/shadow_params/0"). Nothing of the file is run: what it would have Python call is not
// called, and tensors that only a call would make are left out, as are those too large for a
// solver.
NamedTables read_checkpoint_tables(const std::string& content, const std::string& source);

}  // namespace bespoke
