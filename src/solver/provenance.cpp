#include "bespoke/solver/provenance.h"

#include <cmath>

namespace bespoke {

namespace {

using nlohmann::json;

void take(json& from, const char* key, std::string& value) {
  const auto entry = from.find(key);
  if (entry == from.end() || !entry->is_string()) return;
  value = entry->get<std::string>();
  from.erase(entry);
}

void take(json& from, const char* key, std::optional<double>& value) {
  const auto entry = from.find(key);
  if (entry == from.end() || !entry->is_number()) return;
  value = entry->get<double>();
  from.erase(entry);
}

void take(json& from, const char* key, std::optional<int64_t>& value) {
  const auto entry = from.find(key);
  if (entry == from.end() || !entry->is_number_integer()) return;
  value = entry->get<int64_t>();
  from.erase(entry);
}

void put(json& into, const char* key, const std::string& value) {
  if (!value.empty()) into[key] = value;
}

void put(json& into, const char* key, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) into[key] = *value;
}

void put(json& into, const char* key, const std::optional<int64_t>& value) {
  if (value) into[key] = *value;
}

// Every key with its member, once for both directions.
template <class Subject, class Visit>
void visit(Subject& provenance, const Visit& with) {
  with("made_by", provenance.made_by);
  with("command", provenance.command);
  with("method", provenance.method);
  with("start", provenance.start);
  with("ended", provenance.ended);
  with("initial_psnr", provenance.initial_psnr);
  with("validation_psnr", provenance.validation_psnr);
  with("training_psnr", provenance.training_psnr);
  with("iterations", provenance.iterations);
  with("samples", provenance.samples);
  with("held_out", provenance.held_out);
  with("forwards", provenance.forwards);
  with("screening_forwards", provenance.screening_forwards);
  with("calls", provenance.calls);
  with("tolerance", provenance.tolerance);
  with("seconds", provenance.seconds);
}

// What the Python package called them up to version 0.9.
void rename_old_keys(json& all) {
  if (!all.contains("made by")) return;
  for (const auto& [old_key, key] :
       {std::pair{"made by", "made_by"}, {"held out", "held_out"}, {"psnr", "validation_psnr"}}) {
    if (!all.contains(old_key) || all.contains(key)) continue;
    all[key] = all[old_key];
    all.erase(old_key);
  }
}

}  // namespace

Provenance provenance_from(const json& written) {
  Provenance provenance;
  if (!written.is_object()) return provenance;
  provenance.more = written;
  rename_old_keys(provenance.more);
  visit(provenance, [&](const char* key, auto& value) { take(provenance.more, key, value); });
  return provenance;
}

json to_json(const Provenance& provenance) {
  json all = provenance.more.is_object() ? provenance.more : json::object();
  visit(provenance, [&](const char* key, const auto& value) { put(all, key, value); });
  return all;
}

}  // namespace bespoke
