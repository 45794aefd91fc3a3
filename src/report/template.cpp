#include "template.h"

#include <fmt/format.h>

#include <stdexcept>

namespace bespoke {

namespace {

const std::string& value_of(const std::string& name,
                            const std::map<std::string, std::string>& values) {
  const auto found = values.find(name);
  if (found == values.end()) throw std::logic_error("no value for {{" + name + "}}");
  return found->second;
}

// The place of {{/name}} in `text`.
size_t end_of_section(std::string_view text, const std::string& name) {
  const size_t end = text.find("{{/" + name + "}}");
  if (end == std::string_view::npos) throw std::logic_error("{{#" + name + "}} has no end");
  return end;
}

}  // namespace

std::string fill_template(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  while (true) {
    const size_t open = text.find("{{");
    out += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    const size_t close = text.find("}}", open);
    if (close == std::string_view::npos) throw std::logic_error("{{ without }}");
    std::string name(text.substr(open + 2, close - open - 2));
    text.remove_prefix(close + 2);
    const char kind = name.empty() ? ' ' : name.front();
    if (kind != '#' && kind != '^') {
      out += value_of(name, values);
      continue;
    }
    name.erase(0, 1);
    const size_t end = end_of_section(text, name);
    if (value_of(name, values).empty() == (kind == '^')) {
      out += fill_template(text.substr(0, end), values);
    }
    text.remove_prefix(end + name.size() + 5);
  }
}

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace bespoke
