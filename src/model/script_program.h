#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "bespoke/model/network_program.h"

namespace bespoke::detail {

// A TorchScript file, converted to the device and precision of the options. `expected_sha256` may
// be empty: not checked. Errors say what is wrong with the file.
std::unique_ptr<NetworkProgram> load_script(const std::filesystem::path& path,
                                            const std::string& expected_sha256,
                                            const NetworkOptions& options);

}  // namespace bespoke::detail
