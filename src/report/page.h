#pragma once

#include <string_view>

namespace bespoke {

// The files of page/ and Chart.js, put into the library when it is built (cmake/Embed.cmake).
std::string_view page_html();
std::string_view page_css();
std::string_view page_js();
std::string_view page_chart_js();  // empty where Chart.js was not found

}  // namespace bespoke
