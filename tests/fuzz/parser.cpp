#include "fuzz/parser.h"

#include <sys/mman.h>
#include <unistd.h>

#include <set>
#include <stdexcept>

#include "bespoke/base/error.h"

namespace bespoke::fuzz {

std::vector<Parser>& parsers() {
  static std::vector<Parser> list;
  return list;
}

Registered::Registered(const char* name, void (*parse)(const std::string&)) {
  parsers().push_back({name, parse});
}

const Parser& find_parser(const std::string& name) {
  std::string names;
  for (const auto& parser : parsers()) {
    if (parser.name == name) return parser;
    names += " " + parser.name;
  }
  throw std::runtime_error("no parser '" + name + "'; there are:" + names);
}

bool reads_json(const Parser& parser) {
  static const std::set<std::string> names = {"distill_state", "method_rule", "model_card",
                                              "pair_manifest", "solver_file"};
  return names.count(parser.name) > 0;
}

bool accepts(const Parser& parser, const std::string& bytes) {
  try {
    parser.parse(bytes);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input && error.kind() != ErrorKind::usage) throw;
    const std::string message = error.what();
    expect(!message.empty(), "a refusal gives its reason");
    const std::string foreign = "json.exception";
    expect(message.find(foreign) == std::string::npos || bytes.find(foreign) != std::string::npos,
           "a refusal is in our words");
    return false;
  }
}

void expect(bool good, const char* what) {
  if (!good) throw std::logic_error(std::string("expected that ") + what);
}

MemoryFile::MemoryFile(const std::string& bytes) : descriptor_(::memfd_create("input", 0)) {
  const auto size = static_cast<ssize_t>(bytes.size());
  const bool written = descriptor_ >= 0 && ::write(descriptor_, bytes.data(), bytes.size()) == size;
  if (!written) throw std::runtime_error("cannot make a file in memory");
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

}  // namespace bespoke::fuzz
