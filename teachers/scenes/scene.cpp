#include "teachers/scenes/scene.h"

#include <fmt/format.h>

#include <string>

#include "teachers/choices.h"

namespace bespoke {

namespace {

constexpr uint32_t kSceneStream = 0x7363656E;
constexpr size_t kChoices = 16;  // of a scene, at most
constexpr double kSmall = 24, kLarge = 42, kMiddle = kSceneSize / 2.0;

std::string with_article(const std::string& words) {
  const bool vowel = std::string("aeiou").find(words.front()) != std::string::npos;
  return (vowel && words.rfind("unicorn", 0) != 0 ? "an " : "a ") + words;
}

std::string on_background(const Colour& colour, bool briefly) {
  return briefly ? fmt::format("on {}", colour.name)
                 : fmt::format("on {} background", with_article(colour.name));
}

const Thing& thing_of(int64_t index) { return things()[static_cast<size_t>(index)]; }

// How far from the middle a thing of this size may be so that it is seen whole.
double reach(double size) { return (kSceneSize - size) / 2 - 1; }

// A thing that is alone: its size and place are said or left out.
void place_alone(Scene& scene, int64_t thing, Choices& choices) {
  const bool small = choices.with(0.5), says_size = choices.with(0.7);
  const double size = small ? kSmall : kLarge;
  const int64_t place = choices.one_of(places().size());
  const double column = static_cast<double>(place % 3 - 1),
               row = static_cast<double>(place / 3 - 1);
  scene.figures.push_back({thing, choices.around(kMiddle + column * reach(size), 1),
                           choices.around(kMiddle + row * reach(size), 1), size});
  std::string words = thing_of(thing).name;
  if (says_size) words = (small ? "small " : "large ") + words;
  scene.caption = with_article(words);
  if (!choices.with(0.75)) return;
  scene.place = place;
  scene.caption += fmt::format(" {}", places()[static_cast<size_t>(place)]);
}

// Two things side by side, the one that is said first on the left.
void place_beside(Scene& scene, int64_t left, int64_t right, Choices& choices) {
  constexpr double kSize = 28, kApart = 16;
  for (const auto& [thing, side] : {std::pair{left, -1}, std::pair{right, 1}}) {
    scene.figures.push_back(
        {thing, choices.around(kMiddle + side * kApart, 1), choices.around(kMiddle, 8), kSize});
  }
  scene.caption = left == right ? fmt::format("two {}", thing_of(left).plural)
                                : fmt::format("{} and {}", with_article(thing_of(left).name),
                                              with_article(thing_of(right).name));
}

// A thing that this split may show on the colour: the next after one drawn at random.
int64_t draw_thing(SceneSplit split, int64_t colour, Choices& choices) {
  const auto count = static_cast<int64_t>(things().size());
  const int64_t first = choices.one_of(things().size());
  for (int64_t k = 0; k < count; ++k) {
    const int64_t thing = (first + k) % count;
    if (is_kept_for_testing(thing, colour) == (split == SceneSplit::test)) return thing;
  }
  return first;
}

}  // namespace

const std::vector<Thing>& things() {
  static const std::vector<Thing> all = {
      {"monkey", "monkeys", 0x1F412},
      {"gorilla", "gorillas", 0x1F98D},
      {"dog", "dogs", 0x1F415},
      {"fox", "foxes", 0x1F98A},
      {"cat", "cats", 0x1F408},
      {"lion", "lions", 0x1F981},
      {"tiger", "tigers", 0x1F405},
      {"horse", "horses", 0x1F40E},
      {"unicorn", "unicorns", 0x1F984},
      {"zebra", "zebras", 0x1F993},
      {"deer", "deer", 0x1F98C},
      {"cow", "cows", 0x1F404},
      {"pig", "pigs", 0x1F416},
      {"goat", "goats", 0x1F410},
      {"camel", "camels", 0x1F42A},
      {"giraffe", "giraffes", 0x1F992},
      {"elephant", "elephants", 0x1F418},
      {"mouse", "mice", 0x1F401},
      {"rabbit", "rabbits", 0x1F407},
      {"hedgehog", "hedgehogs", 0x1F994},
      {"bat", "bats", 0x1F987},
      {"bear", "bears", 0x1F43B},
      {"koala", "koalas", 0x1F428},
      {"panda", "pandas", 0x1F43C},
      {"penguin", "penguins", 0x1F427},
      {"duck", "ducks", 0x1F986},
      {"swan", "swans", 0x1F9A2},
      {"owl", "owls", 0x1F989},
      {"flamingo", "flamingos", 0x1F9A9},
      {"peacock", "peacocks", 0x1F99A},
      {"parrot", "parrots", 0x1F99C},
      {"frog", "frogs", 0x1F438},
      {"crocodile", "crocodiles", 0x1F40A},
      {"turtle", "turtles", 0x1F422},
      {"snake", "snakes", 0x1F40D},
      {"dragon", "dragons", 0x1F409},
      {"whale", "whales", 0x1F40B},
      {"dolphin", "dolphins", 0x1F42C},
      {"fish", "fish", 0x1F41F},
      {"shark", "sharks", 0x1F988},
      {"octopus", "octopuses", 0x1F419},
      {"snail", "snails", 0x1F40C},
      {"butterfly", "butterflies", 0x1F98B},
      {"ant", "ants", 0x1F41C},
      {"beetle", "beetles", 0x1FAB2},
      {"spider", "spiders", 0x1F577},
      {"rose", "roses", 0x1F339},
      {"sunflower", "sunflowers", 0x1F33B},
      {"tulip", "tulips", 0x1F337},
      {"cactus", "cactuses", 0x1F335},
      {"mushroom", "mushrooms", 0x1F344},
      {"watermelon", "watermelons", 0x1F349},
      {"lemon", "lemons", 0x1F34B},
      {"banana", "bananas", 0x1F34C},
      {"pineapple", "pineapples", 0x1F34D},
      {"pear", "pears", 0x1F350},
      {"strawberry", "strawberries", 0x1F353},
      {"tomato", "tomatoes", 0x1F345},
      {"avocado", "avocados", 0x1F951},
      {"carrot", "carrots", 0x1F955},
      {"broccoli", "broccoli", 0x1F966},
      {"croissant", "croissants", 0x1F950},
      {"pretzel", "pretzels", 0x1F968},
      {"hamburger", "hamburgers", 0x1F354},
      {"pizza", "pizzas", 0x1F355},
      {"taco", "tacos", 0x1F32E},
      {"egg", "eggs", 0x1F95A},
      {"crab", "crabs", 0x1F980},
      {"lobster", "lobsters", 0x1F99E},
      {"cookie", "cookies", 0x1F36A},
      {"pie", "pies", 0x1F967},
      {"candy", "candies", 0x1F36C},
      {"crown", "crowns", 0x1F451},
      {"ring", "rings", 0x1F48D},
      {"bell", "bells", 0x1F514},
      {"guitar", "guitars", 0x1F3B8},
      {"trumpet", "trumpets", 0x1F3BA},
      {"violin", "violins", 0x1F3BB},
      {"drum", "drums", 0x1F941},
      {"telephone", "telephones", 0x260E},
      {"camera", "cameras", 0x1F4F7},
      {"candle", "candles", 0x1F56F},
      {"scroll", "scrolls", 0x1F4DC},
      {"envelope", "envelopes", 0x2709},
      {"pencil", "pencils", 0x270F},
      {"key", "keys", 0x1F511},
      {"hammer", "hammers", 0x1F528},
      {"bomb", "bombs", 0x1F4A3},
      {"shield", "shields", 0x1F6E1},
      {"magnet", "magnets", 0x1F9F2},
      {"microscope", "microscopes", 0x1F52C},
      {"telescope", "telescopes", 0x1F52D},
      {"pill", "pills", 0x1F48A},
      {"door", "doors", 0x1F6AA},
      {"chair", "chairs", 0x1FA91},
      {"bathtub", "bathtubs", 0x1F6C1},
      {"basket", "baskets", 0x1F9FA},
      {"volcano", "volcanos", 0x1F30B},
      {"house", "houses", 0x1F3E0},
      {"castle", "castles", 0x1F3F0},
      {"tent", "tents", 0x26FA},
      {"locomotive", "locomotives", 0x1F682},
      {"bus", "buses", 0x1F68C},
      {"taxi", "taxis", 0x1F695},
      {"tractor", "tractors", 0x1F69C},
      {"bicycle", "bicycles", 0x1F6B2},
      {"anchor", "anchors", 0x2693},
      {"sailboat", "sailboats", 0x26F5},
      {"airplane", "airplanes", 0x2708},
      {"helicopter", "helicopters", 0x1F681},
      {"rocket", "rockets", 0x1F680},
      {"watch", "watches", 0x231A},
      {"sun", "suns", 0x2600},
      {"star", "stars", 0x2B50},
      {"cloud", "clouds", 0x2601},
      {"rainbow", "rainbows", 0x1F308},
      {"umbrella", "umbrellas", 0x2602},
      {"snowman", "snowmen", 0x2603},
      {"fire", "fires", 0x1F525},
  };
  return all;
}

const std::vector<Colour>& background_colours() {
  static const std::vector<Colour> all = {{"white", 255, 255, 255}, {"black", 20, 20, 20},
                                          {"grey", 150, 150, 150},  {"red", 205, 50, 50},
                                          {"orange", 245, 150, 50}, {"yellow", 250, 225, 90},
                                          {"green", 70, 165, 80},   {"blue", 60, 110, 205},
                                          {"purple", 130, 75, 165}, {"pink", 245, 170, 195}};
  return all;
}

const std::vector<const char*>& places() {
  static const std::vector<const char*> all = {
      "at the top left",    "at the top",    "at the top right",
      "at the left",        "in the centre", "at the right",
      "at the bottom left", "at the bottom", "at the bottom right"};
  return all;
}

// One colour in ten for each thing, another for each next.
bool is_kept_for_testing(int64_t thing, int64_t colour) {
  const auto colours = static_cast<int64_t>(background_colours().size());
  return (7 * thing + 3) % colours == colour;
}

Scene draw_scene(uint64_t seed, uint64_t index, SceneSplit split) {
  constexpr double kAlone = 0.6, kAlike = 0.35;
  Choices choices(seed, index, kSceneStream, kChoices);
  Scene scene;
  scene.colour = choices.one_of(background_colours().size());
  const int64_t thing = draw_thing(split, scene.colour, choices);
  if (choices.with(kAlone)) {
    place_alone(scene, thing, choices);
  } else if (choices.with(kAlike)) {
    place_beside(scene, thing, thing, choices);
  } else {
    place_beside(scene, thing, draw_thing(split, scene.colour, choices), choices);
  }
  scene.caption += " " + on_background(background_colours()[static_cast<size_t>(scene.colour)],
                                       choices.with(0.4));
  return scene;
}

}  // namespace bespoke
