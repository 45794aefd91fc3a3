#include "bespoke/jobs/run_folder.h"

#include <fmt/format.h>

#include <ostream>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kOptions[] = "options.json";

}  // namespace

nlohmann::json read_json_object(const std::filesystem::path& path) {
  auto json =
      parse_json(read_text_file(path), path.string(), "an earlier run wrote it; begin anew");
  require(json.is_object(), path.string(), "is not a JSON object; begin anew");
  return json;
}

void refuse_unless_resumed(const std::filesystem::path& folder, bool resume) {
  if (resume || !is_file(folder / kOptions)) return;
  throw usage_error("{} holds an earlier run; add --resume to continue it or choose another -o",
                    folder.string());
}

FolderLock claim_folder(const std::filesystem::path& folder, const nlohmann::json& options,
                        bool resume) {
  make_folders(folder);
  FolderLock lock(folder);
  const auto path = folder / kOptions;
  if (!is_file(path)) {
    write_file_atomically(path, json_text(options, 2) + "\n");
    return lock;
  }
  refuse_unless_resumed(folder, resume);
  const auto found = read_json_object(path);
  for (const auto& [key, value] : options.items()) {
    if (json_text(found.value(key, nlohmann::json())) != json_text(value)) {
      throw bad_input("{} was begun with {} = {}, this run has {}; give the same options",
                      folder.string(), key, json_text(found.value(key, nlohmann::json())),
                      json_text(value));
    }
  }
  return lock;
}

void check_log(const std::ostream& log, const std::filesystem::path& path) {
  if (log) return;
  throw Error(ErrorKind::failed, fmt::format("cannot write '{}'; is the disk full? Make room, then "
                                             "continue with --resume",
                                             path.string()));
}

}  // namespace bespoke
