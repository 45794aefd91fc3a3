#include "bespoke/model/vocabulary.h"

#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

namespace {

// Bytes beyond ASCII are parts of letters.
bool in_word(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '\'' || c >= 0x80;
}

constexpr size_t kShown = 60;

// "'spaceship', 'dragn' (did you mean 'dragon'?)", the first few of them.
std::string name_unknown(const std::vector<std::string>& unknown,
                         const std::vector<std::string>& words) {
  constexpr size_t kMost = 3;
  std::vector<std::string> named;
  for (const auto& word : unknown) {
    if (named.size() == kMost) {
      named.push_back(fmt::format("{} more", unknown.size() - kMost));
      break;
    }
    const std::string nearest_word = nearest(word, words);
    named.push_back(fmt::format(
        "'{}'{}", shortened(word, kShown),
        nearest_word.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest_word)));
  }
  return fmt::format("{}", fmt::join(named, ", "));
}

}  // namespace

std::vector<std::string> caption_words(const std::string& caption) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : lower_case(caption) + " ") {
    if (in_word(static_cast<unsigned char>(c))) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

Vocabulary::Vocabulary(std::vector<std::string> words) : words_(std::move(words)) {
  for (const auto& word : words_) {
    if (caption_words(word) != std::vector<std::string>{word}) {
      throw bad_input("a vocabulary holds single words in lower case, found '{}'",
                      shortened(word, kShown));
    }
    const auto number = static_cast<int64_t>(numbers_.size()) + 1;
    if (!numbers_.emplace(word, number).second) {
      throw bad_input("a vocabulary holds '{}' twice", shortened(word, kShown));
    }
  }
}

Vocabulary Vocabulary::of(const std::vector<std::string>& captions) {
  std::set<std::string> all;
  for (const auto& caption : captions) {
    for (const auto& word : caption_words(caption)) all.insert(word);
  }
  return Vocabulary({all.begin(), all.end()});
}

std::vector<int64_t> Vocabulary::tokens(const std::string& caption, int64_t length) const {
  const auto words = caption_words(caption);
  if (static_cast<int64_t>(words.size()) > length) {
    throw usage_error("'{}' has {} words, the model reads {}; say it in fewer",
                      shortened(caption, kShown), words.size(), length);
  }
  std::vector<int64_t> tokens(static_cast<size_t>(length), 0);
  std::vector<std::string> unknown;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto entry = numbers_.find(words[i]);
    if (entry == numbers_.end()) {
      unknown.push_back(words[i]);
    } else {
      tokens[i] = entry->second;
    }
  }
  if (unknown.empty()) return tokens;
  throw usage_error("the model does not know {}; its card lists the {} words it knows",
                    name_unknown(unknown, words_), words_.size());
}

std::string Vocabulary::caption(const std::vector<int64_t>& tokens) const {
  std::vector<std::string> words;
  for (const int64_t token : tokens) {
    if (token >= 1 && token <= static_cast<int64_t>(words_.size())) {
      words.push_back(words_[static_cast<size_t>(token) - 1]);
    }
  }
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace bespoke
