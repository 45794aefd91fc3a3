#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bespoke::detail {

std::vector<std::string> split(const std::string& text, char separator);

// The candidate with the smallest edit distance to `word`; empty if none is close enough to be a
// likely typing error.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

// Says "unknown WHAT 'word'; did you mean 'x'?" or, with no near candidate, the list of all of
// them.
std::string unknown_name(const std::string& what, const std::string& word,
                         const std::vector<std::string>& candidates);

// Whether the whole of `text` is a number, written as everywhere, whatever the locale says.
bool reads_as_number(const std::string& text);

// The whole of `text` as a number; throws a usage error that names `what`.
double parse_number(const std::string& text, const std::string& what);
int64_t parse_integer(const std::string& text, const std::string& what);

// Integer lists such as "8", "4-20+2" or "4,6,8-16+4": increasing ranges, both ends included.
std::vector<int64_t> parse_integer_list(const std::string& text, const std::string& what);

// Whether `left` comes before `right` where people sort names: runs of digits by their value, so
// that "x2" is before "x10", everything else by its bytes. Different texts are never equal.
bool natural_less(const std::string& left, const std::string& right);

// Cuts a text to so many bytes, whole characters of UTF-8, with "..." for the rest.
std::string shortened(const std::string& text, size_t most);

// The text without anything that a terminal acts on: control characters as "\x1b", and likewise
// those that turn the order of others round, with which a name reads as another one.
std::string printable(const std::string& text);

// A count with its thousands apart: "25,000".
std::string grouped(int64_t count);

// The text with A to Z as a to z; other bytes are left alone.
std::string lower_case(std::string text);

// The shortest decimal that reads back as exactly the same double.
std::string exact(double value);

}  // namespace bespoke::detail
