#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bespoke/model/card.h"
#include "bespoke/model/model.h"

namespace bespoke {

// What users write of a model's conditions, NAME=VALUE, as conditions.

// The name that stands for the condition of a model that is told what to draw in words, and what
// stands before the name of a file of such prompts, one a line; no word holds it.
constexpr char kPromptCondition[] = "prompt";
constexpr char kPromptFileMark = '@';

// What the card says stands for "no condition", with a batch of one.
torch::Tensor null_value(const ConditionCard& condition);

// NAME=VALUE, taken apart; the name is checked.
struct ConditionText {
  const ConditionCard* condition;
  std::string value;
};
ConditionText parse_condition(const std::vector<ConditionCard>& known, const std::string& text);

// Throws a usage error where a condition is given `again`.
void refuse_twice(bool again, const std::string& name);

// Throws a usage error where a condition that is given is among the rows of --utterances too.
void refuse_beside(const Conditions& rows, const std::string& name);

// What a text is as a condition in words, [1, tokens]; a usage error where words are unknown.
torch::Tensor text_row(const ConditionCard& condition, const std::string& text);

// All entries a value has, in its order: [entries, ...].
torch::Tensor condition_rows(const ConditionCard& condition, const std::string& value);

// What a condition that is not given is, its null value; throws a usage error where it must be
// given.
torch::Tensor default_rows(const ConditionCard& condition);

// Entries begin ... end - 1 of the rows repeated without end.
torch::Tensor repeat_rows(const torch::Tensor& rows, int64_t begin, int64_t end);

// Those of `count` samples. A value is a list of classes, "3" or "0-9", or a tensor
// file, "FILE.npy" or "FILE.safetensors[:KEY]", with the batch in front or shared without it; where
// it has fewer entries than there are samples it repeats. Conditions not given are null where the
// card has a null tensor, unless they are among `rows`, which repeat likewise.
Conditions read_conditions(const std::vector<ConditionCard>& known,
                           const std::vector<std::string>& texts, int64_t count,
                           const Conditions& rows = {});

}  // namespace bespoke
