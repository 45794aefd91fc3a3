#include "options/space_options.h"

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

void add_space_option(CLI::App& command, std::string& space) {
  command
      .add_option("--space", space,
                  "of a latent model: sample (the latents themselves) or decoded (what its decoder "
                  "makes of them)")
      ->capture_default_str();
}

bool is_decoded_space(const std::string& space) {
  if (space != "sample" && space != "decoded") {
    throw Error(ErrorKind::usage, unknown_name("space", space, {"sample", "decoded"}));
  }
  return space == "decoded";
}

bool in_decoded_space(const OpenModel& open, const std::string& space) {
  const bool decoded = is_decoded_space(space);
  check_decoded_space(open, decoded);
  return decoded;
}

}  // namespace bespoke
