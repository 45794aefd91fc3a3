#pragma once

#include <cstdint>

#include "bespoke/jobs/open_model.h"

namespace bespoke {

// What calling the network once shows: its cost, and that it treats samples one by one.
struct CallReport {
  double seconds;            // per sample and evaluation, in the batch
  double megabytes;          // of memory, at most
  double repeat_difference;  // largest, between two equal calls
  double batch_difference;   // largest, between a sample alone and in the batch
  bool finite;               // on noise
  bool differentiable;       // in x
};

// Of `count` samples of noise in the middle of the path, with these conditions.
CallReport call_network(const OpenModel& open, const Conditions& conditions, int64_t count);

// Calls the network on every class, null included, beside what else it is given; bad input where
// what it returns is not finite.
void call_every_class(const OpenModel& open, const Conditions& conditions, int64_t batch);

}  // namespace bespoke
