#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bespoke/base/json_checks.h"

namespace bespoke::detail {

// A job from JSON that has all of its fields and no other, validated. each_field(job, visit) calls
// visit(name, field) of each; read(json, name, field) reads one.
template <class Job, class EachField, class Read>
Job parse_job(const nlohmann::json& json, const std::string& source, EachField each_field,
              Read read) {
  return read_checked(source, [&] {
    Job job;
    std::vector<std::string> names;
    each_field(job, [&](const char* name, const auto&) { names.emplace_back(name); });
    check_keys(json, names, {}, source);
    each_field(job, [&](const char* name, auto& field) { read(json.at(name), name, field); });
    job.validate();
    return job;
  });
}

}  // namespace bespoke::detail
