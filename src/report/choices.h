#pragma once

#include <string>
#include <vector>

namespace bespoke {

// One of several contents of which the page shows one at a time.
struct Choice {
  std::string name;  // plain text
  std::string html;
  bool is_featured = false;  // the one that is shown first; the first one where none is
};

// All of them, and a chooser where there are several; the page's script makes it work.
std::string choices_html(const std::string& id, const std::string& label,
                         const std::vector<Choice>& choices);

}  // namespace bespoke
