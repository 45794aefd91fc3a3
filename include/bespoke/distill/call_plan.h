#pragma once

#include <cstdint>

namespace bespoke {

// What a distillation is to spend, all calls of the model counted, in single samples.
struct CallBudget {
  int64_t calls = 0;
  int64_t run = 8;         // a sample, of the solver
  int64_t evaluation = 1;  // of the reference; 2 where both calls of guidance are counted
  // How many reference samples to learn from, where that is given.
  int64_t samples = 0;
  bool holds_out = false;  // whether some must be held out, as the choice of guided steps needs
};

// How many reference samples are drawn to learn from and to hold out, by how many evaluations
// each. Few calls buy few samples, and none that only measure: the samples learnt from
// measure then. What the samples leave is for fits and, where it suffices, iterations.
struct CallPlan {
  int64_t samples = 0, held_out = 0, evaluations = 0;
};

// A usage error, which says how many are needed, where the calls do not suffice.
CallPlan plan_calls(const CallBudget& budget);

}  // namespace bespoke
