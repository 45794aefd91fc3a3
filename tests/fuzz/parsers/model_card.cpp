#include "bespoke/model/card.h"

#include <nlohmann/json.hpp>

#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered model_card("model_card", [](const std::string& bytes) {
  const ModelCard card = parse_model_card(bytes, "folder/model.json");
  expect(combination_problem(card).empty(), "a card's keys go together");
  describe(card.time, card.input_scaling);
  network_time(card.time, *card.schedule, 0.5);
  network_input_scale(card.input_scaling, *card.schedule, 0.5);
});

}  // namespace bespoke::fuzz
