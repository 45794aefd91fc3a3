#pragma once

#include <string>
#include <vector>

namespace bespoke::fuzz {

// Something that reads what others wrote: a file, or a text of the command line. `parse` reads the
// bytes, and where it accepts them looks at what came out. A file is refused by bad-input and usage
// errors alone; anything else that leaves it is a finding.
struct Parser {
  std::string name;
  void (*parse)(const std::string& bytes);
};

// All of this program, by name. Each is defined in a file of its own.
std::vector<Parser>& parsers();

// Puts a parser among them before main begins.
struct Registered {
  Registered(const char* name, void (*parse)(const std::string&));
};

// Whether what it reads is one JSON document, whose structure can be mutated.
bool reads_json(const Parser& parser);

// The one of this name; an error that lists all names where there is none.
const Parser& find_parser(const std::string& name);

// Whether it takes the bytes. Throws what is a finding, and where a refusal does not say in words
// what is wrong.
bool accepts(const Parser& parser, const std::string& bytes);

// For what is to be the same and is not.
void expect(bool good, const char* what);

// A file in memory, for what reads by path.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace bespoke::fuzz
