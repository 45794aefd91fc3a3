#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "bespoke/model/card.h"

namespace bespoke {

// What the card of a student says that its teacher's does not.
struct StudentFacts {
  int64_t steps;
  std::string weights_sha256;
  std::string source;                // where it came from
  std::set<std::string> conditions;  // it was trained with: it knows no null value of these
};

// The file in a student's folder that holds its weights.
constexpr char kStudentWeights[] = "model.pt";

// The teacher's card with these in place of its own, for a folder in which copy_card_files has put
// what it names.
std::string student_card_text(const ModelCard& teacher, const std::string& teacher_text,
                              const StudentFacts& facts);

// Puts the files that a card names beside its weights into the folder: decoder, encoder and null
// values.
void copy_card_files(const ModelCard& teacher, const std::filesystem::path& folder);

}  // namespace bespoke
