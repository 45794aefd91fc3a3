#pragma once

#include <string_view>

namespace bespoke {

// The files of page/, put into the library when it is built (cmake/Embed.cmake).
std::string_view page_html();
std::string_view page_css();
std::string_view page_js();

}  // namespace bespoke
