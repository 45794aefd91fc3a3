#include "bespoke/io/zip.h"

#include "bespoke/io/decode_limit.h"
#include "fuzz/parser.h"

namespace bespoke::fuzz {

static const Registered zip("zip", [](const std::string& bytes) {
  set_decode_limit(1 << 20);
  const MemoryFile file(bytes);
  const ZipArchive archive(file.path());
  for (size_t i = 0; i < archive.names().size(); ++i) archive.read(i);
});

}  // namespace bespoke::fuzz
