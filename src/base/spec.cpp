#include "bespoke/base/spec.h"

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"

namespace bespoke::detail {

Spec Spec::parse(const std::string& text) {
  Spec spec;
  const size_t colon = text.find(':');
  spec.name = text.substr(0, colon);
  if (colon == std::string::npos) return spec;
  for (const auto& part : split(text.substr(colon + 1), ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      spec.positional.push_back(part);
    } else {
      spec.options[part.substr(0, equals)] = part.substr(equals + 1);
    }
  }
  return spec;
}

double Spec::number(const std::string& key, double fallback) const {
  const auto option = options.find(key);
  return option == options.end() ? fallback : parse_number(option->second, name + ":" + key);
}

int64_t Spec::integer(const std::string& key, int64_t fallback) const {
  const auto option = options.find(key);
  return option == options.end() ? fallback : parse_integer(option->second, name + ":" + key);
}

void Spec::allow_only(const std::vector<std::string>& names) const {
  if (!positional.empty()) {
    throw usage_error("'{}' takes options written KEY=VALUE, found '{}'", name, positional.front());
  }
  for (const auto& [key, value] : options) {
    bool is_known = false;
    for (const auto& candidate : names) is_known = is_known || candidate == key;
    if (!is_known && names.empty())
      throw usage_error("'{}' takes no options, found '{}'", name, key);
    if (!is_known) throw Error(ErrorKind::usage, unknown_name("option of " + name, key, names));
  }
}

}  // namespace bespoke::detail
