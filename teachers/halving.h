#pragma once

#include <vector>

#include "bespoke/model/model.h"
#include "bespoke/path/prediction.h"
#include "teachers/objective.h"

namespace bespoke {

// Progressive distillation (Salimans and Ho, 2022): a student takes in one DDIM step what its
// teacher takes in two, and is the teacher of the next.

// One DDIM step, which holds data and noise at what a model predicts here:
//   x_to = alpha_to D + sigma_to E = state x + output f.
// Bad input where the output does not determine both.
Affine<double> ddim_step(Prediction prediction, const SchedulePoint& from, const SchedulePoint& to);

// What counts in the mean square of the error in the data D, by the signal-to-noise ratio
// alpha^2 / sigma^2 of the time.
enum class HalvingWeight {
  truncated_snr,  // max(SNR, 1)
  snr_plus_one,   // SNR + 1
};

// Two steps of the teacher as one of the student.
struct HalvedStep {
  double from, middle, to;
  SchedulePoint point;  // at `from`
  Affine<double> to_middle;
  // The output that takes the student from x in one step to where the teacher gets in two,
  //   f* = state x + first f(x) + second f(x_middle).
  double state, first, second;
  double weight;  // of | f - f* |^2
};

// Of a teacher's times, weakly rising, of an even number of steps.
std::vector<HalvedStep> halved_steps(Prediction prediction, const Schedule& schedule,
                                     const std::vector<double>& times, HalvingWeight weight);

// The mean over a batch of weight | f(x_t) - f*(x_t) |^2 with x_t = alpha x_1 + sigma eps at one
// of the student's times, drawn evenly for each sample. The labels of a batch are numbers of rows
// of `conditions`.
Loss halving_loss(ModelPtr teacher, ModelPtr student, const std::vector<HalvedStep>& steps,
                  Conditions conditions);

// Every second of a teacher's times.
std::vector<double> every_second(const std::vector<double>& times);

}  // namespace bespoke
