#include "runs/compare_sounds.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "bespoke/base/message.h"
#include "bespoke/io/wav.h"
#include "bespoke/jobs/comparison_report.h"

namespace bespoke {

namespace {

// A solver's name, which may be a path, as part of a file's.
std::string file_name_of(std::string name) {
  for (char& c : name) {
    if (std::string("/\\:@=, ").find(c) != std::string::npos) c = '-';
  }
  return name;
}

}  // namespace

void write_compared_sounds(const ModelComparison& compared, const std::filesystem::path& folder) {
  const auto rate = static_cast<int>(compared.prepared.open.card.sample_rate);
  const auto write = [&](const torch::Tensor& sounds, const std::string& name) {
    for (int64_t i = 0; sounds.defined() && i < sounds.size(0); ++i) {
      write_wav(folder / fmt::format("{}-{}.wav", i + 1, file_name_of(name)), sounds[i], rate);
    }
  };
  const torch::Tensor& reference = compared.figures.reference.samples;
  write(reference, "reference");
  if (compared.prepared.inputs.gaps)
    write(compared.prepared.inputs.gaps->recordings(0, reference.size(0)), "recording");
  for (const auto& row : compared.figures.rows) {
    write(row.samples, fmt::format("{}-{}", line_name(compared, row), row.nfe));
  }
  detail::say("sounds: {}", folder.string());
}

}  // namespace bespoke
