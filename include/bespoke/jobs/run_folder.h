#pragma once

#include <filesystem>
#include <iosfwd>
#include <nlohmann/json.hpp>

#include "bespoke/base/folder_lock.h"

namespace bespoke {

// Claims the folder of a command for `options`, everything that decides its results. One that holds
// another run is refused with what differs, and so is one that was not asked to be resumed. No
// other process can claim it while the lock lives.
[[nodiscard]] detail::FolderLock claim_folder(const std::filesystem::path& folder,
                                              const nlohmann::json& options, bool resume);

// The latter alone, before anything costly is done.
void refuse_unless_resumed(const std::filesystem::path& folder, bool resume);

// A file of such a folder that holds a JSON object.
nlohmann::json read_json_object(const std::filesystem::path& path);

// Fails where the log could not be written, so that a run that goes on from a full disk logs again
// what is missing.
void check_log(const std::ostream& log, const std::filesystem::path& path);

}  // namespace bespoke
