#pragma once

#include <cstdio>
#include <cstring>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace bespoke::testing {

// The folder of the project's sources.
inline const std::string& source_root() {
  static const std::string folder = BESPOKE_SOURCE_DIR;
  return folder;
}

// The files or folders (type 'f' or 'd') below a folder, as find lists them.
inline std::vector<std::string> find(const std::string& folder, char type) {
  const std::string command = "find '" + folder + "' -mindepth 1 -type " + type + " 2>/dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::vector<std::string> names;
  char line[4096];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) {
    names.emplace_back(line, std::strcspn(line, "\n"));
  }
  ::pclose(pipe);
  return names;
}

// What stands between the quotes or brackets of a file's #include lines.
inline std::vector<std::string> includes_of(const std::string& file) {
  static const std::regex include(R"re(^\s*#\s*include\s*["<]([^">]+)[">])re");
  std::vector<std::string> names;
  std::ifstream stream(file);
  std::smatch match;
  for (std::string line; std::getline(stream, line);) {
    if (std::regex_search(line, match, include)) names.push_back(match[1]);
  }
  return names;
}

inline bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

}  // namespace bespoke::testing
