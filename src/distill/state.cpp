#include "bespoke/distill/state.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

namespace {

using nlohmann::json;

constexpr char kStateFormat[] = "bespoke-distillation";
constexpr int kStateVersion = 5;
constexpr const char* kMethodNames[] = {"auto", "fit", "direct", "adam"};

json to_json(const Counts& counts) {
  return {{"forwards", counts.forwards}, {"vjps", counts.vjps}};
}

int64_t count_from(const json& value, const char* key) {
  return whole_number(value.at(key), key, 0, std::numeric_limits<int64_t>::max());
}

Counts counts_from(const json& value) {
  return {count_from(value, "forwards"), count_from(value, "vjps")};
}

json to_json(const DirectState& direct) {
  json memory = json::array();
  for (const Remembered& entry : direct.memory) {
    memory.push_back({{"theta", entry.theta},
                      {"samples", entry.samples},
                      {"loss", entry.loss},
                      {"time_difference", entry.time_difference}});
  }
  return {{"damping", direct.damping},
          {"difference", direct.difference},
          {"batch", direct.batch},
          {"next_sample", direct.next_sample},
          {"memory", memory}};
}

DirectState direct_from(const json& value) {
  DirectState direct{value.at("damping").get<double>(),
                     value.at("difference").get<double>(),
                     count_from(value, "batch"),
                     count_from(value, "next_sample"),
                     {}};
  for (const auto& entry : value.at("memory")) {
    direct.memory.push_back({entry.at("theta").get<std::vector<double>>(),
                             entry.at("samples").get<std::vector<int64_t>>(),
                             entry.at("loss").get<double>(),
                             entry.at("time_difference").get<double>(), nullptr});
  }
  return direct;
}

json to_json(const MatchState& match) {
  return {{"theta", match.theta},           {"damping", match.damping},
          {"iteration", match.iteration},   {"floor", match.floor},
          {"is_over", match.is_over},       {"first_distance", match.first_distance},
          {"distance", match.distance},     {"first_psnr", match.first_psnr},
          {"psnr_error", match.psnr_error}, {"psnr", match.psnr},
          {"counts", to_json(match.counts)}};
}

MatchState match_from(const json& value) {
  MatchState match;
  value.at("theta").get_to(match.theta);
  value.at("damping").get_to(match.damping);
  match.iteration = count_from(value, "iteration");
  value.at("floor").get_to(match.floor);
  value.at("is_over").get_to(match.is_over);
  value.at("first_distance").get_to(match.first_distance);
  value.at("distance").get_to(match.distance);
  value.at("first_psnr").get_to(match.first_psnr);
  match.psnr_error = value.value("psnr_error", 0.0);
  value.at("psnr").get_to(match.psnr);
  match.counts = counts_from(value.at("counts"));
  return match;
}

json to_json(const StartState& start) {
  return {{"name", start.name},
          {"theta", start.theta},
          {"iteration", start.iteration},
          {"direct", to_json(start.direct)},
          {"adam_first", start.adam.first},
          {"adam_second", start.adam.second},
          {"initial_psnr", start.initial_psnr},
          {"validation_psnr", start.validation_psnr},
          {"best_psnr", start.best_psnr},
          {"best_error", start.best_error},
          {"best_theta", start.best_theta},
          {"stale", start.stale},
          {"diverged", start.diverged},
          {"message", start.message}};
}

StartState start_from(const json& value) {
  StartState start;
  value.at("name").get_to(start.name);
  value.at("theta").get_to(start.theta);
  start.iteration = count_from(value, "iteration");
  start.direct = direct_from(value.at("direct"));
  value.at("adam_first").get_to(start.adam.first);
  value.at("adam_second").get_to(start.adam.second);
  value.at("initial_psnr").get_to(start.initial_psnr);
  value.at("validation_psnr").get_to(start.validation_psnr);
  value.at("best_psnr").get_to(start.best_psnr);
  start.best_error = value.value("best_error", 0.0);
  value.at("best_theta").get_to(start.best_theta);
  start.stale = count_from(value, "stale");
  value.at("diverged").get_to(start.diverged);
  value.at("message").get_to(start.message);
  for (const auto* list : {&start.best_theta, &start.adam.first, &start.adam.second}) {
    const bool unused = list != &start.best_theta && list->empty();
    require(unused || list->size() == start.theta.size(), start.name,
            "its lists of numbers differ in length");
  }
  return start;
}

}  // namespace

int64_t DistillState::iterations_of(size_t start) const {
  const bool is_matched = match && static_cast<int64_t>(start) == chosen;
  return starts[start].iteration + (is_matched ? match->iteration : 0);
}

std::string to_string(Method method) { return kMethodNames[static_cast<size_t>(method)]; }

Method parse_method(const std::string& name) {
  const std::vector<std::string> names(std::begin(kMethodNames), std::end(kMethodNames));
  const auto place = std::find(names.begin(), names.end(), name);
  if (place == names.end()) throw usage_error("{}", unknown_name("method", name, names));
  return static_cast<Method>(place - names.begin());
}

std::string to_json_text(const DistillState& state) {
  json starts = json::array();
  for (const auto& start : state.starts) starts.push_back(to_json(start));
  json document = {{"format", kStateFormat},
                   {"version", kStateVersion},
                   {"family", state.family},
                   {"nfe", state.nfe},
                   {"method", to_string(state.method)},
                   {"seed", state.seed},
                   {"starts", starts},
                   {"chosen", state.chosen},
                   {"screening", to_json(state.screening)},
                   {"training", to_json(state.training)},
                   {"validation", to_json(state.validation)},
                   {"seconds", state.seconds}};
  if (state.match) document["match"] = to_json(*state.match);
  return json_text(document) + "\n";
}

DistillState parse_distill_state(const std::string& text, const std::string& source) {
  return read_checked(source, [&] {
    const json document = parse_json(text, source, "it is written by a distillation");
    require(document.is_object() && document.value("format", "") == kStateFormat, source,
            "not the state of a distillation");
    require(
        document.value("version", 0.0) == kStateVersion, source,
        "the state of a distillation by another version of Bespoke, which this one cannot go on "
        "from; begin anew in another folder");
    DistillState state;
    document.at("family").get_to(state.family);
    state.nfe = static_cast<int>(
        whole_number(document.at("nfe"), "nfe", 0, std::numeric_limits<int>::max()));
    state.method = parse_method(document.at("method").get<std::string>());
    require(document.at("seed").is_number_unsigned(), "seed", "must be a whole number from 0");
    document.at("seed").get_to(state.seed);
    for (const auto& start : document.at("starts")) state.starts.push_back(start_from(start));
    state.chosen = whole_number(document.at("chosen"), "chosen", -1,
                                static_cast<int64_t>(state.starts.size()) - 1);
    state.screening = counts_from(document.at("screening"));
    state.training = counts_from(document.at("training"));
    state.validation = counts_from(document.at("validation"));
    document.at("seconds").get_to(state.seconds);
    if (document.contains("match")) state.match = match_from(document.at("match"));
    return state;
  });
}

}  // namespace bespoke
