#pragma once

#include <string>

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"

namespace bespoke {

// Conditions that a card's model takes: classes in turn, tokens of number 0 and drawn numbers for
// all else. For calls that show what a network does, not what it draws.
Conditions made_up_conditions(const ModelCard& card, int64_t count);

// How much the first sample differs with the others beside it and without, at time t: the largest
// difference of an output, relative to the largest output. A network that treats its samples one by
// one differs by rounding alone; one that mixes them (normalisation over the batch in training
// mode, a batch fixed by tracing) draws samples that depend on what is drawn beside them.
double batch_difference(const Model& model, const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions);

// The same of two equal calls, which differ where the network draws numbers, as dropout does.
double repeat_difference(const Model& model, const torch::Tensor& x, const torch::Tensor& t,
                         const Conditions& conditions);

// The largest difference that rounding may explain.
constexpr double kMostDifference = 1e-2;

// What calls on noise with made-up conditions show.
struct NetworkTrialResult {
  double batch_difference = 0, repeat_difference = 0;
};

// Calls the model twice for two samples, and for the first of them alone. Throws what is wrong with
// the network's output.
NetworkTrialResult try_network(const Model& model, const ModelCard& card, torch::Device device);

// Bad input where equal calls differ by so much: there is no ODE to solve then.
void refuse_unless_it_repeats(const std::string& name, double repeat_difference);

}  // namespace bespoke
