#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace bespoke {

// The words that a text-conditioned network knows, and captions as numbers: word k of the list is
// k + 1, and 0 stands for no word, so that the empty caption is all zeros. Captions are read in
// lower case; what is neither a letter nor a digit only parts words.
class Vocabulary {
 public:
  // The words in this order; bad input where one is no word or stands twice.
  explicit Vocabulary(std::vector<std::string> words);
  // The vocabulary of all words that occur, sorted.
  static Vocabulary of(const std::vector<std::string>& captions);

  const std::vector<std::string>& words() const { return words_; }

  // The `length` numbers of a caption. An unknown word is a usage error that suggests the nearest,
  // and so are more than `length` words.
  std::vector<int64_t> tokens(const std::string& caption, int64_t length) const;

  // The words of such numbers, with spaces between; numbers of no word are left out.
  std::string caption(const std::vector<int64_t>& tokens) const;

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, int64_t> numbers_;
};

// The words of a caption.
std::vector<std::string> caption_words(const std::string& caption);

}  // namespace bespoke
