#include "options/decode_options.h"

#include <cstdint>
#include <functional>

#include "bespoke/io/decode_limit.h"

namespace bespoke {

void add_decode_option(CLI::App& command) {
  constexpr int kMebibyteBits = 20;
  constexpr int64_t kMost = int64_t{1} << 40;  // of which the bytes fit 64 bits
  command
      .add_option_function<int64_t>(
          "--decode-limit",
          [](int64_t mebibytes) {
            set_decode_limit(static_cast<uint64_t>(mebibytes) << kMebibyteBits);
          },
          "MiB that one picture, sound or file of an archive may take when unpacked; default 512")
      ->check(CLI::Range(int64_t{1}, kMost));
}

}  // namespace bespoke
