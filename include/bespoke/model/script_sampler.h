#pragma once

#include <string>

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"
#include "bespoke/model/network.h"
#include "bespoke/path/guidance_weight.h"
#include "bespoke/solver/solver_file.h"

namespace bespoke {

// What the module samples with, as guided_model takes it.
struct ScriptSamplerOptions {
  GuidanceWeight guidance = {};
  Conditions null_conditions = {};  // of a batch of one
};

// One TorchScript file of a network and the only solver of a file, which torch.jit.load opens in
// Python or C++ and nothing else is needed to run. Returns its bytes.
//
//   forward(noise, condition ...[, guidance]) -> samples
//
// noise [batch, ...] is standard normal, conditions are in the order of the card, and guidance over
// a range takes each sample's own w [batch]. It draws what sample() draws on guided_model of the
// network, in the network's precision. With a decoder there is decode(samples) too. The attributes
// (times, network_times, a, b, ...) say what it does; the solver file is in it as solver.json.
std::string script_sampler(const SolverFile& file, const LoadedNetwork& network,
                           const ModelCard& card, const ScriptSamplerOptions& options = {},
                           const Decoder* decoder = nullptr);

}  // namespace bespoke
