#include "options/option_groups.h"

namespace bespoke {

void group_options(CLI::App& command, const std::vector<OptionGroup>& groups) {
  for (const auto& group : groups) {
    for (const auto& name : group.options) {
      if (CLI::Option* option = command.get_option_no_throw(name)) option->group(group.heading);
    }
  }
}

const OptionGroup& running_group() {
  static const OptionGroup group = {"Where to run",
                                    {"--batch", "--dtype", "--device", "--threads", "--one-by-one",
                                     "--no-graphs", "--decode-limit", "--cache", "--no-cache"}};
  return group;
}

}  // namespace bespoke
