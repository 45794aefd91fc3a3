// Captions as numbers.

#include "bespoke/model/vocabulary.h"

#include <gtest/gtest.h>

#include "../support.h"
#include "bespoke/base/error.h"

namespace bespoke {
namespace {

std::string refusal(const Vocabulary& vocabulary, const std::string& caption, int64_t length) {
  try {
    vocabulary.tokens(caption, length);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(Vocabulary, NumbersWordsInTheirOrder) {
  const Vocabulary vocabulary = Vocabulary::of({"A red heart, on blue.", "a key"});
  EXPECT_EQ(vocabulary.words(),
            (std::vector<std::string>{"a", "blue", "heart", "key", "on", "red"}));
  EXPECT_EQ(vocabulary.tokens("a KEY on red!", 6), (std::vector<int64_t>{1, 4, 5, 6, 0, 0}));
  EXPECT_EQ(vocabulary.tokens("", 2), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(vocabulary.caption({1, 4, 5, 6, 0, 0}), "a key on red");
  EXPECT_EQ(vocabulary.caption({0, 99, -1}), "");
}

TEST(Vocabulary, KeepsLettersBeyondAscii) {
  EXPECT_EQ(caption_words("Une piñata - d'été"),
            (std::vector<std::string>{"une", "piñata", "d'été"}));
}

TEST(Vocabulary, NamesUnknownWordsAndTheNearestKnown) {
  const Vocabulary vocabulary({"a", "dragon", "on", "white"});
  const std::string message = refusal(vocabulary, "a dragn on a spaceship", 8);
  EXPECT_NE(message.find("'dragn' (did you mean 'dragon'?), 'spaceship'"), std::string::npos)
      << message;
  EXPECT_NE(message.find("4 words"), std::string::npos) << message;
  EXPECT_NE(refusal(vocabulary, "p q r s t", 8).find("'p', 'q', 'r', 2 more;"), std::string::npos);
  EXPECT_NE(refusal(vocabulary, "a a a", 2).find("has 3 words, the model reads 2"),
            std::string::npos);
}

TEST(Vocabulary, RefusesWhatIsNoWordOrStandsTwice) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"a", "a"}, {"two words"}, {"Cat"}, {""}}) {
    EXPECT_THROW(Vocabulary{words}, Error);
  }
}

}  // namespace
}  // namespace bespoke
