#include "bespoke/solver/field_differences.h"

#include <fmt/format.h>

#include <algorithm>

#include "bespoke/base/json_checks.h"
#include "bespoke/path/network_input.h"

namespace bespoke {

using namespace detail;

namespace {

using nlohmann::json;

// The description without what may be left out, so that the same is always said in the same words.
json plain_time(const json& time) {
  const NetworkInput input = network_input_from_json(time, "field.time");
  return describe(input.time, input.scaling);
}

// A solver with built-in guidance has its weight in its numbers: with another it would draw samples
// of the weight it was made for all the same.
bool guides_itself(const SolverFile& file) {
  return std::any_of(file.solvers.begin(), file.solvers.end(),
                     [](const FiledSolver& filed) { return filed.solver.guides_itself(); });
}

bool follows_from_the_path(const SolverFile& file) {
  return file.provenance.value("made_by", json()) == kMadeByCatalogue;
}

}  // namespace

FieldDifferences field_differences(const SolverFile& file, const FieldDescription& field) {
  const FieldDescription& made = file.field;
  FieldDifferences differences;
  const json path = made.schedule->describe(), its_path = field.schedule->describe();
  if (path != its_path) {
    differences.impossible.push_back(fmt::format("was made for the schedule {}, the model has {}",
                                                 json_text(path), json_text(its_path)));
  }
  if (guides_itself(file) && made.guidance != field.guidance) {
    differences.impossible.push_back(fmt::format("has {} built in and no other; this run has {}",
                                                 to_string(made.guidance),
                                                 to_string(field.guidance)));
  } else if (!follows_from_the_path(file) && !covers(made.guidance, field.guidance)) {
    differences.doubtful.push_back(fmt::format(
        "was made for {}, this run has {}", to_string(made.guidance), to_string(field.guidance)));
  }
  if (follows_from_the_path(file)) return differences;
  if (made.prediction != field.prediction) {
    differences.doubtful.push_back(
        fmt::format("was made for {} prediction, this model has {} prediction",
                    to_string(made.prediction), to_string(field.prediction)));
  }
  if (made.clip != field.clip) {
    const auto said = [](const std::optional<Clip>& clip) {
      return clip ? to_string(*clip) : std::string("data that is not clipped");
    };
    differences.doubtful.push_back(
        fmt::format("was made for {}, this run has {}", said(made.clip), said(field.clip)));
  }
  if (made.time.is_null() || field.time.is_null()) return differences;
  const json time = plain_time(made.time), its_time = plain_time(field.time);
  if (time != its_time) {
    differences.doubtful.push_back(
        fmt::format("was made for a network that is given time as {}, this one is given it as {}",
                    json_text(time), json_text(its_time)));
  }
  return differences;
}

}  // namespace bespoke
