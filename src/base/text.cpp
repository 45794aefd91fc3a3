#include "bespoke/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "bespoke/base/error.h"

namespace bespoke::detail {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

static size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitution = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitution, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < word.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string unknown_name(const std::string& what, const std::string& word,
                         const std::vector<std::string>& candidates) {
  constexpr size_t kShown = 60;
  const std::string brief = shortened(word, kShown);
  const std::string suggestion = nearest(brief, candidates);
  if (!suggestion.empty()) {
    return fmt::format("unknown {} '{}'; did you mean '{}'?", what, brief, suggestion);
  }
  return fmt::format("unknown {} '{}'; choose one of: {}", what, brief,
                     fmt::join(candidates, ", "));
}

template <class Number>
static Number parse_whole(const std::string& text, const std::string& what, const char* expected) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) {
    throw usage_error("{} must be {}, found '{}'", what, expected, shortened(text, 60));
  }
  return value;
}

bool reads_as_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return !text.empty() && result.ec == std::errc() && result.ptr == end;
}

double parse_number(const std::string& text, const std::string& what) {
  const double value = parse_whole<double>(text, what, "a number");
  if (!std::isfinite(value)) throw usage_error("{} must be finite, found '{}'", what, text);
  return value;
}

int64_t parse_integer(const std::string& text, const std::string& what) {
  return parse_whole<int64_t>(text, what, "an integer");
}

static constexpr size_t kLongestList = 1'000'000;

static void append_range(std::vector<int64_t>& list, const std::string& item,
                         const std::string& what) {
  const size_t dash = item.find('-', 1);
  const size_t plus = item.find('+');
  if (dash == std::string::npos) {
    list.push_back(parse_integer(item, what));
    return;
  }
  const int64_t first = parse_integer(item.substr(0, dash), what);
  const int64_t last = parse_integer(item.substr(dash + 1, plus - dash - 1), what);
  const int64_t step = plus == std::string::npos ? 1 : parse_integer(item.substr(plus + 1), what);
  if (step < 1 || last < first) {
    throw usage_error("{}: '{}' is not a range; write FIRST-LAST or FIRST-LAST+STEP, e.g. 4-20+2",
                      what, item);
  }
  // In unsigned numbers, which wrap and so never overflow.
  const uint64_t steps =
      (static_cast<uint64_t>(last) - static_cast<uint64_t>(first)) / static_cast<uint64_t>(step);
  if (steps >= kLongestList - list.size()) {
    throw usage_error("{}: more than {} numbers with '{}'", what, kLongestList, item);
  }
  for (uint64_t k = 0; k <= steps; ++k) {
    const uint64_t value = static_cast<uint64_t>(first) + k * static_cast<uint64_t>(step);
    list.push_back(static_cast<int64_t>(value));
  }
}

std::vector<int64_t> parse_integer_list(const std::string& text, const std::string& what) {
  std::vector<int64_t> list;
  for (const auto& item : split(text, ',')) {
    if (list.size() >= kLongestList)
      throw usage_error("{}: more than {} numbers", what, kLongestList);
    append_range(list, item, what);
  }
  return list;
}

static bool is_digit(char character) { return character >= '0' && character <= '9'; }

// The run of digits from `begin` on, without leading zeros; `begin` is moved past it.
static std::string take_number(const std::string& text, size_t& begin) {
  while (begin < text.size() && text[begin] == '0') ++begin;
  const size_t first = begin;
  while (begin < text.size() && is_digit(text[begin])) ++begin;
  return text.substr(first, begin - first);
}

bool natural_less(const std::string& left, const std::string& right) {
  size_t i = 0;
  size_t j = 0;
  while (i < left.size() && j < right.size()) {
    if (is_digit(left[i]) && is_digit(right[j])) {
      const std::string a = take_number(left, i);
      const std::string b = take_number(right, j);
      if (a != b) return a.size() != b.size() ? a.size() < b.size() : a < b;
    } else if (left[i] != right[j]) {
      return static_cast<unsigned char>(left[i]) < static_cast<unsigned char>(right[j]);
    } else {
      ++i;
      ++j;
    }
  }
  const size_t left_rest = left.size() - i;
  const size_t right_rest = right.size() - j;
  return left_rest == 0 && right_rest == 0 ? left < right : left_rest < right_rest;
}

std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  const std::string dots = "...";
  size_t end = most - std::min(most, dots.size());
  const auto continues = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
  };
  while (end > 0 && continues(text[end])) --end;
  return text.substr(0, end) + dots;
}

// The length of a character at `at` that changes the order in which others are shown, so that a
// text reads as another one, or that ends a line; 0 where there is none.
static size_t reordering_length(const std::string& text, size_t at) {
  static const std::vector<std::string> kReordering = {
      u8"\u061C", u8"\u200E", u8"\u200F", u8"\u2028", u8"\u2029", u8"\u202A", u8"\u202B",
      u8"\u202C", u8"\u202D", u8"\u202E", u8"\u2066", u8"\u2067", u8"\u2068", u8"\u2069"};
  for (const auto& character : kReordering) {
    if (text.compare(at, character.size(), character) == 0) return character.size();
  }
  return 0;
}

std::string printable(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const size_t reordering = byte < 0x80 ? 0 : reordering_length(text, i);
    for (size_t k = 0; k < reordering; ++k) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i + k]));
    }
    if (reordering > 0) {
      i += reordering - 1;
    } else if (byte < 0x20 || byte == 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // the control characters of Latin-1
      result += fmt::format("\\x{:02x}", next);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string grouped(int64_t count) {
  std::string text = std::to_string(count);
  for (size_t i = text.size(); i > 3 && is_digit(text[i - 4]); i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string lower_case(std::string text) {
  for (char& character : text) {
    if (character >= 'A' && character <= 'Z') character = static_cast<char>(character + 32);
  }
  return text;
}

// JSON reads "-0" as a whole number, which has no sign.
std::string exact(double value) {
  return value == 0 && std::signbit(value) ? "-0.0" : fmt::format("{}", value);
}

}  // namespace bespoke::detail
