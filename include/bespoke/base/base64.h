#pragma once

#include <string>

namespace bespoke::detail {

// The bytes in base64 as RFC 4648 has it, with padding.
std::string base64(const std::string& bytes);

// A resource held in its own address, such as data:image/png;base64,...
std::string data_uri(const std::string& media_type, const std::string& bytes);

}  // namespace bespoke::detail
