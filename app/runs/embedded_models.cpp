#include "runs/embedded_models.h"

#include <unistd.h>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"

namespace bespoke {

using namespace detail;

namespace {

// readlink because std::filesystem's twin crashes with LibTorch 2 (base/file.h).
std::filesystem::path program_folder() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) return {};
  return std::filesystem::path(std::string(path, static_cast<size_t>(length))).parent_path();
}

// The installed ones first: a program that was installed may outlive the sources it was built from.
std::filesystem::path embedded_file(const std::string& name) {
  for (const std::filesystem::path& folder :
       {program_folder() / "../../share/bespoke/models", std::filesystem::path(BESPOKE_MODELS)}) {
    if (is_file(folder / name)) return folder / name;
  }
  return {};
}

}  // namespace

std::vector<std::string> embedded_model_names() {
  return {"cifar10-fm-ot", "cifar10-eps-vp", "emoji-t2i", "speech"};
}

std::filesystem::path embedded_card(const std::string& name) {
  for (const auto& known : embedded_model_names()) {
    if (known != name) continue;
    const auto card = embedded_file(name + ".json");
    if (!card.empty()) return card;
    throw bad_input(
        "the embedded model {} is not beside this program; install it with "
        "'cmake --install', or give the path of its card",
        name);
  }
  return {};
}

std::filesystem::path embedded_prompts(const std::string& name) {
  return embedded_file(name + "-prompts.txt");
}

std::filesystem::path embedded_gaps(const std::string& name) {
  return embedded_file(name + "-gaps/manifest.jsonl").parent_path();
}

std::filesystem::path embedded_features(const std::string& name) {
  return name == kEmbeddedFeatures ? embedded_file(name + ".pt") : std::filesystem::path();
}

}  // namespace bespoke
