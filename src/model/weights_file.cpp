#include "weights_file.h"

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/sha256.h"

namespace bespoke::detail {

std::string read_weights(const std::filesystem::path& path, const std::string& expected_sha256) {
  std::string content = read_file(path);
  if (!expected_sha256.empty() && sha256(content) != expected_sha256) {
    throw bad_input("{} is not the file the card was written for (sha256 {} instead of {})",
                    path.string(), sha256(content), expected_sha256);
  }
  return content;
}

}  // namespace bespoke::detail
