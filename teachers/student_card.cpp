#include "teachers/student_card.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kDecoderFile[] = "decoder.pt", kEncoderFile[] = "encoder.pt";

std::string null_file_of(const ConditionCard& condition) {
  return fmt::format("null-{}{}", condition.name, condition.null_file.extension().string());
}

}  // namespace

std::string student_card_text(const ModelCard& teacher, const std::string& teacher_text,
                              const StudentFacts& facts) {
  auto json = nlohmann::ordered_json::parse(teacher_text);
  json["name"] = fmt::format("{}-{}-steps", teacher.name, facts.steps);
  json["weights"] = kStudentWeights;
  json["weights_sha256"] = facts.weights_sha256;
  json["steps"] = facts.steps;
  json["source"] = facts.source;
  if (teacher.decoder) json["decoder"]["weights"] = kDecoderFile;
  if (teacher.encoder) json["encoder"]["weights"] = kEncoderFile;
  for (size_t i = 0; i < teacher.conditions.size(); ++i) {
    const ConditionCard& condition = teacher.conditions[i];
    auto& entry = json["conditions"][i];
    if (facts.conditions.count(condition.name) > 0) {
      entry.erase("null");
    } else if (!condition.null_file.empty()) {
      entry["null"] = null_file_of(condition);
    }
  }
  return json_text(json, 2) + "\n";
}

void copy_card_files(const ModelCard& teacher, const std::filesystem::path& folder) {
  const auto copy = [&](const std::filesystem::path& from, const std::string& name) {
    write_file_atomically(folder / name, read_file(from));
  };
  if (teacher.decoder) copy(teacher.decoder->weights, kDecoderFile);
  if (teacher.encoder) copy(teacher.encoder->weights, kEncoderFile);
  for (const auto& condition : teacher.conditions) {
    if (!condition.null_file.empty()) copy(condition.null_file, null_file_of(condition));
  }
}

}  // namespace bespoke
