#pragma once

#include <string>
#include <vector>

namespace bespoke {

// The commands this process was asked to run, as a shell would take them, for reports: one, or
// those of a demo.
void record_invocation(const std::vector<std::string>& arguments);
void forget_invocations();
const std::vector<std::string>& invocations();

// "bespoke distill --nfe 8", with quotes where a shell needs them.
std::string command_text(const std::vector<std::string>& arguments);

}  // namespace bespoke
