#include "choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "template.h"

namespace bespoke {

std::string choices_html(const std::string& id, const std::string& label,
                         const std::vector<Choice>& choices) {
  if (choices.empty()) return "";
  const auto featured = std::find_if(choices.begin(), choices.end(),
                                     [](const Choice& choice) { return choice.is_featured; });
  const auto& shown = featured == choices.end() ? choices.front() : *featured;
  std::string options, contents;
  for (const auto& choice : choices) {
    const bool is_shown = &choice == &shown;
    options +=
        fmt::format("<option{}>{}</option>", is_shown ? " selected" : "", escape_html(choice.name));
    contents +=
        fmt::format("<div class=\"choice\"{}>{}</div>\n", is_shown ? "" : " hidden", choice.html);
  }
  return fmt::format(
      "<div class=\"choices\">\n<p class=\"chooser\"{0}><label for=\"{1}\">{2}</label> "
      "<select id=\"{1}\" autocomplete=\"off\">{3}</select></p>\n{4}</div>\n",
      choices.size() < 2 ? " hidden" : "", id, label, options, contents);
}

}  // namespace bespoke
