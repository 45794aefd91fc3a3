#pragma once

#include <filesystem>
#include <string>

namespace bespoke::detail {

// The bytes of a file that a card names. Throws bad input where they are not those it was written
// for; an empty hash is not checked.
std::string read_weights(const std::filesystem::path& path, const std::string& expected_sha256);

}  // namespace bespoke::detail
