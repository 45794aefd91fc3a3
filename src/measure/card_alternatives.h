#pragma once

#include <string>
#include <vector>

#include "bespoke/model/card.h"

namespace bespoke::detail {

// A card, and what it alters in another, for people.
struct Alternative {
  std::string change;
  ModelCard card;
  // Whether it draws a set of its own: small changes of one number do not, which saves calls.
  bool draws = true;
};

// Every valid card that differs from this one in a single declaration: another prediction, another
// way of counting time, another schedule or another value of one of its parameters, the other
// scaling of the input.
std::vector<Alternative> single_changes(const ModelCard& card);

}  // namespace bespoke::detail
