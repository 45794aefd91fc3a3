#pragma once

#include <map>
#include <string>
#include <string_view>

namespace bespoke {

// Fills {{name}} with values, as they are. {{#name}} ... {{/name}} is kept where the value of that
// name is not empty and {{^name}} ... {{/name}} where it is. What was filled in is not looked at
// again, so values may hold braces. A name without a value is an error in the template.
std::string fill_template(std::string_view text, const std::map<std::string, std::string>& values);

// Text for the content of an element or a quoted attribute.
std::string escape_html(const std::string& text);

}  // namespace bespoke
