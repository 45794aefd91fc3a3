// Entry points of libFuzzer: ./fuzz --parser=NAME [FLAGS] [CORPUS ...].

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bespoke::fuzz::accepts(*chosen, std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
