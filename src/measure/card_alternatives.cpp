#include "card_alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

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

// The convention that is most easily taken for this one; an index has none.
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
      break;
  }
  return TimeConvention::index;
}

void add_other_times(const ModelCard& card, std::vector<Alternative>& list) {
  const TimeConvention other_convention = counterpart(card.time.convention);
  if (other_convention == card.time.convention) return;
  const std::string& name = time_convention_names()[static_cast<size_t>(other_convention)];
  list.push_back(changed(card, fmt::format("time.convention \"{}\"", name),
                         [&](ModelCard& other) { other.time.convention = other_convention; }));
  const double scale = card.time.scale == 1 ? 1000 : 1;
  list.push_back(changed(card, fmt::format("time.scale {}", scale),
                         [&](ModelCard& other) { other.time.scale = scale; }));
}

void add_other_schedules(const ModelCard& card, std::vector<Alternative>& list) {
  for (const auto& entry : schedule_registry()) {
    if (entry.name == card.schedule->name()) continue;
    const SchedulePtr schedule = make_schedule(entry.name);
    list.push_back(changed(card, fmt::format("schedule \"{}\"", entry.name),
                           [&](ModelCard& other) { other.schedule = schedule; }));
  }
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
  add_other_scaling(card, list);
  const auto impossible = [](const Alternative& other) {
    return !combination_problem(other.card).empty();
  };
  list.erase(std::remove_if(list.begin(), list.end(), impossible), list.end());
  return list;
}

}  // namespace bespoke::detail
