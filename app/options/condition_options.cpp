#include "options/condition_options.h"

#include <fmt/format.h>

#include <functional>

#include "bespoke/jobs/conditions.h"

namespace bespoke {

void add_condition_options(CLI::App& command, std::vector<std::string>& conditions,
                           const std::string& help) {
  command.add_option("--cond", conditions, help);
  const std::function<void(const std::string&)> prompt = [&conditions](const std::string& text) {
    conditions.push_back(fmt::format("{}={}", kPromptCondition, text));
  };
  command.add_option_function<std::string>("--prompt", prompt,
                                           "what to draw, in words that the model knows");
  command.add_option_function<std::string>(
      "--prompts", [prompt](const std::string& file) { prompt(kPromptFileMark + file); },
      "a file of prompts, one per line, in turn");
}

}  // namespace bespoke
