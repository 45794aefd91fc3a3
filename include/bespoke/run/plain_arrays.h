#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bespoke/run/array_field.h"
#include "bespoke/run/arrays.h"

namespace bespoke {

// The numbers of some samples, one sample after another: arrays for programs that have no library
// of them.
struct PlainArray {
  std::vector<double> values;  // of all samples
  int64_t count = 0;           // samples

  // How many numbers a sample has.
  int64_t sample_size() const {
    return count == 0 ? 0 : static_cast<int64_t>(values.size()) / count;
  }
};

// The operations on arrays of PlainArray: Array::of(PlainArray{...}) and array.as<PlainArray>().
std::shared_ptr<const Arrays> plain_arrays();

// A model that is a function of the times of all rows, their states, and the numbers of their
// samples, which tell what conditions they have; it returns as many numbers.
using PlainFunction = std::function<std::vector<double>(
    const std::vector<double>& times, const PlainArray& x, const std::vector<int64_t>& samples)>;
// The field of such a model.
std::shared_ptr<SampledField> plain_field(PlainFunction model,
                                          Prediction prediction = Prediction::velocity,
                                          SchedulePtr schedule = fm_ot_schedule());

}  // namespace bespoke
