// Entry points of libFuzzer: ./fuzz --parser=NAME [FLAGS] [CORPUS ...].

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "fuzz/json_mutator.h"
#include "fuzz/parser.h"

namespace {

const bespoke::fuzz::Parser* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) try {
  const std::string flag = "--parser=";
  for (int i = 1; i < *argc; ++i) {
    const std::string argument = (*argv)[i];
    if (argument == "--list") {
      for (const auto& parser : bespoke::fuzz::parsers()) std::puts(parser.name.c_str());
      std::exit(0);
    }
    if (argument.rfind(flag, 0) != 0) continue;
    chosen = &bespoke::fuzz::find_parser(argument.substr(flag.size()));
  }
  if (chosen == nullptr) throw std::runtime_error("say which: --parser=NAME; --list lists them");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  std::exit(2);
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// Of documents the structure as often as the bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most,
                                          unsigned int seed) {
  if (!bespoke::fuzz::reads_json(*chosen) || seed % 2 == 0) {
    return LLVMFuzzerMutate(data, size, most);
  }
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string mutated = bespoke::fuzz::mutated_json(text, {}, seed);
  if (mutated.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(mutated.begin(), mutated.end(), data);
  return mutated.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bespoke::fuzz::accepts(*chosen, std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
