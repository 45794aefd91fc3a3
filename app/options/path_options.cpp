#include "options/path_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "bespoke/path/prediction.h"
#include "bespoke/path/schedule.h"

namespace bespoke {

void add_path_options(CLI::App& command, std::string& schedule, std::string& prediction) {
  std::vector<std::string> names;
  for (const auto& entry : schedule_registry()) names.push_back(entry.name);
  command.add_option("--schedule", schedule,
                     fmt::format("noise schedule: {}, or table:FILE; options as vp:B=20,b=0.1; "
                                 "default fm-ot",
                                 fmt::join(names, ", ")));
  command.add_option("--prediction", prediction,
                     fmt::format("what the model predicts: {}; default velocity",
                                 fmt::join(prediction_names(), ", ")));
}

}  // namespace bespoke
