#include "card_alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"

namespace bespoke::detail {

namespace {

Alternative changed(const ModelCard& card, const std::string& change,
                    const std::function<void(ModelCard&)>& edit) {
  Alternative other{change, card};
  edit(other.card);
  return other;
}

void add_other_predictions(const ModelCard& card, std::vector<Alternative>& list) {
  for (const auto& name : prediction_names()) {
    const Prediction prediction = parse_prediction(name);
    if (prediction == card.prediction) continue;
    list.push_back(changed(card, fmt::format("prediction \"{}\"", name),
                           [&](ModelCard& other) { other.prediction = prediction; }));
  }
}

// The convention that is most easily taken for this one; an index has none, nor has none.
TimeConvention counterpart(TimeConvention convention) {
  switch (convention) {
    case TimeConvention::noise_to_data:
      return TimeConvention::data_to_noise;
    case TimeConvention::data_to_noise:
      return TimeConvention::noise_to_data;
    case TimeConvention::sigma:
      return TimeConvention::log_sigma;
    case TimeConvention::log_sigma:
      return TimeConvention::sigma;
    case TimeConvention::index:
    case TimeConvention::none:
      break;
  }
  return TimeConvention::index;
}

std::string convention_text(TimeConvention convention) {
  return fmt::format("time.convention \"{}\"",
                     time_convention_names()[static_cast<size_t>(convention)]);
}

void add_time(const ModelCard& card, const std::string& change, const TimeCard& time,
              std::vector<Alternative>& list) {
  list.push_back(changed(card, change, [&](ModelCard& other) { other.time = time; }));
}

// An index counts the levels from the data; what else is as long may run the other way.
void add_other_than_index(const ModelCard& card, std::vector<Alternative>& list) {
  add_time(card, convention_text(TimeConvention::data_to_noise), {TimeConvention::data_to_noise},
           list);
  const auto levels = static_cast<double>(card.time.levels);
  add_time(card,
           fmt::format("{} with scale {}", convention_text(TimeConvention::noise_to_data), levels),
           {TimeConvention::noise_to_data, levels}, list);
}

// The other direction, the other scale, and both: a time that is reversed and scaled otherwise
// would else be put down to the schedule.
void add_other_times(const ModelCard& card, std::vector<Alternative>& list) {
  if (card.time.convention == TimeConvention::none) return;
  if (card.time.convention == TimeConvention::index) return add_other_than_index(card, list);
  const TimeConvention convention = counterpart(card.time.convention);
  const double scale = card.time.scale == 1 ? 1000 : 1;
  add_time(card, convention_text(convention), {convention, card.time.scale}, list);
  add_time(card, fmt::format("time.scale {}", scale), {card.time.convention, scale}, list);
  if (card.time.convention == TimeConvention::sigma ||
      card.time.convention == TimeConvention::log_sigma) {
    return;
  }
  add_time(card, fmt::format("{} with scale {}", convention_text(convention), scale),
           {convention, scale}, list);
}

// Whether the noise of a path grows without bound while the data keeps its size.
bool explodes(const Schedule& schedule) { return schedule.alpha(0) == schedule.alpha(1); }

// A schedule, unless its numbers make none or it is the card's own. A network that counts levels is
// told of as many as the schedule has.
void add_schedule(const ModelCard& card, const std::string& change,
                  const nlohmann::json& description, bool draws, std::vector<Alternative>& list) {
  SchedulePtr schedule;
  try {
    schedule = schedule_from_json(description);
  } catch (const Error&) {
    return;
  }
  if (schedule->describe() == card.schedule->describe()) return;
  list.push_back(changed(card, change, [&](ModelCard& other) {
    other.schedule = schedule;
    const int64_t levels = discrete_levels(*schedule);
    if (other.time.levels > 0 && levels > 0) other.time.levels = levels;
  }));
  list.back().draws = draws;
}

// A schedule of the registry, with as many levels as the card has. The usual betas are those of
// 1000 levels; with other numbers of them they are taken as they are, or in proportion.
void add_registered(const ModelCard& card, const ScheduleEntry& entry,
                    std::vector<Alternative>& list) {
  const int64_t own = discrete_levels(*card.schedule);
  const int64_t levels = own > 0 ? own : card.time.levels;
  nlohmann::json description = make_schedule(entry.name)->describe();
  const bool discrete = description.contains("steps");
  if (discrete && levels > 0) description["steps"] = levels;
  add_schedule(card, fmt::format("schedule \"{}\"", entry.name), description, true, list);
  constexpr int64_t kUsualLevels = 1000;
  if (!discrete || levels == 0 || levels == kUsualLevels || !description.contains("beta_end")) {
    return;
  }
  const double share = static_cast<double>(kUsualLevels) / static_cast<double>(levels);
  const double end = share * description["beta_end"].get<double>();
  if (end >= 1) return;
  description["beta_start"] = share * description["beta_start"].get<double>();
  description["beta_end"] = end;
  add_schedule(card, fmt::format("schedule \"{}\" with beta_end {:.4g}", entry.name, end),
               description, true, list);
}

// Betas that rise fast over few levels, as imputers and other models of series have them.
void add_few_levels(const ModelCard& card, std::vector<Alternative>& list) {
  constexpr int64_t kMost = 200;
  const int64_t levels = card.time.levels;
  if (levels == 0 || levels > kMost) return;
  for (const char* name : {"ddpm-linear", "ddpm-quadratic"}) {
    add_schedule(card, fmt::format("schedule \"{}\" with beta_end 0.5", name),
                 {{"name", name}, {"steps", levels}, {"beta_start", 1e-4}, {"beta_end", 0.5}}, true,
                 list);
  }
}

void add_other_schedules(const ModelCard& card, std::vector<Alternative>& list) {
  // A score network is the only one that is not told sigma on such a path.
  const bool any = card.prediction == Prediction::score || explodes(*card.schedule);
  for (const auto& entry : schedule_registry()) {
    const bool rare = entry.name == "ve" || entry.name == "ve-power";
    if (entry.name == card.schedule->name() || (rare && !any)) continue;
    add_registered(card, entry, list);
  }
  add_few_levels(card, list);
}

// The card's own schedule with another value of one parameter.
void add_other_parameters(const ModelCard& card, std::vector<Alternative>& list) {
  const nlohmann::json own = card.schedule->describe();
  const auto add = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json other = own;
    other[key] = value;
    add_schedule(card, fmt::format("schedule.{} {:.4g}", key, value.get<double>()), other, false,
                 list);
  };
  // A network that is told sigma knows what is largest; the path is only longer or shorter.
  const bool told = card.time.convention == TimeConvention::sigma ||
                    card.time.convention == TimeConvention::log_sigma ||
                    card.time.convention == TimeConvention::none;
  for (const char* key : {"beta_end", "B", "sigma_max", "sigma"}) {
    if (!own.contains(key) || (told && key != std::string("beta_end"))) continue;
    for (const double factor : {0.5, 2.0}) add(key, factor * own[key].get<double>());
  }
  if (!own.contains("steps")) return;
  for (const int steps : {100, 1000, 4000}) add("steps", steps);
}

// Only networks in EDM's manner scale their input.
void add_other_scaling(const ModelCard& card, std::vector<Alternative>& list) {
  const bool scaled = card.input_scaling == InputScaling::edm;
  if (!scaled && card.prediction != Prediction::edm) return;
  list.push_back(changed(card, fmt::format("input_scaling \"{}\"", scaled ? "none" : "edm"),
                         [&](ModelCard& other) {
                           other.input_scaling = scaled ? InputScaling::none : InputScaling::edm;
                         }));
}

}  // namespace

std::vector<Alternative> single_changes(const ModelCard& card) {
  std::vector<Alternative> list;
  add_other_predictions(card, list);
  add_other_times(card, list);
  add_other_schedules(card, list);
  add_other_parameters(card, list);
  add_other_scaling(card, list);
  const auto impossible = [](const Alternative& other) {
    return !combination_problem(other.card).empty();
  };
  list.erase(std::remove_if(list.begin(), list.end(), impossible), list.end());
  return list;
}

}  // namespace bespoke::detail
