#pragma once

#include <string>

namespace bespoke {

// "bespoke 0.1.0 (LibTorch 1.13.0)".
std::string version_text(const std::string& program);

}  // namespace bespoke
