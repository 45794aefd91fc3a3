#pragma once

#include <memory>

#include "bespoke/model/model.h"
#include "bespoke/run/array_field.h"

namespace bespoke {

// A field on tensors for the runs of the core: sample k has the conditions of row k. Conditions lie
// where the field computes, as conditions_on() puts them.
std::shared_ptr<ArrayField> tensor_field(std::shared_ptr<const Field> field, Conditions conditions);

// The same for a model, whose samples can be drawn.
std::shared_ptr<SampledField> tensor_field(ModelPtr model, Conditions conditions);

}  // namespace bespoke
