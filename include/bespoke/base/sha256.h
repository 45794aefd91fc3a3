#pragma once

#include <string>

namespace bespoke::detail {

// The SHA-256 of a text or of a file's content, as 64 hexadecimal digits: how a card, a solver and
// a set of pairs name the weights they belong to.
std::string sha256(const std::string& content);

}  // namespace bespoke::detail
