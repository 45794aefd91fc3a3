#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace bespoke {

// What a pickle of Python describes, without doing any of it: a pickle is a program that builds
// values and calls functions by name, and here a call is only written down.
struct PickleValue {
  enum class Kind { nothing, integer, text, list, dictionary, name, call, stored };
  Kind kind = Kind::nothing;
  int64_t integer = 0;
  std::string text;  // or a name, "module.function"
  std::vector<const PickleValue*>
      items;  // of a list or tuple; of a call, what is called and its arguments;
              // of something stored elsewhere, what says where
  std::vector<std::pair<const PickleValue*, const PickleValue*>> entries;  // of a dictionary
};

// All values of a pickle, which may lie in several places, even in themselves.
struct Pickle {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
};

// Bad input where the text ends early or has operations of no pickle that PyTorch writes.
Pickle read_pickle(const std::string& bytes, const std::string& source);

}  // namespace bespoke
