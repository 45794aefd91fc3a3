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
  const auto found = options.find(key);
  return found == options.end() ? fallback : parse_number(found->second, name + ":" + key);
}

int64_t Spec::integer(const std::string& key, int64_t fallback) const {
  const auto found = options.find(key);
  return found == options.end() ? fallback : parse_integer(found->second, name + ":" + key);
}

void Spec::allow_only(const std::vector<std::string>& known) const {
  if (!positional.empty()) {
    throw usage_error("'{}' takes options written KEY=VALUE, found '{}'", name, positional.front());
  }
  for (const auto& [key, value] : options) {
    bool found = false;
    for (const auto& candidate : known) found = found || candidate == key;
    if (!found && known.empty()) throw usage_error("'{}' takes no options, found '{}'", name, key);
    if (!found) throw Error(ErrorKind::usage, unknown_name("option of " + name, key, known));
  }
}

}  // namespace bespoke::detail
