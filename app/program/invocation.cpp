#include "program/invocation.h"

#include <algorithm>
#include <cctype>

namespace bespoke {

namespace {

std::vector<std::string>& recorded() {
  static std::vector<std::string> commands;
  return commands;
}

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string("-_./,:=+@%").find(c) != std::string::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string command_text(const std::vector<std::string>& arguments) {
  std::string text = "bespoke";
  for (const auto& argument : arguments) text += " " + quoted(argument);
  return text;
}

void record_invocation(const std::vector<std::string>& arguments) {
  recorded().push_back(command_text(arguments));
}

void forget_invocations() { recorded().clear(); }

const std::vector<std::string>& invocations() { return recorded(); }

}  // namespace bespoke
