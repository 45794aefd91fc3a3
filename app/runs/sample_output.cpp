#include "runs/sample_output.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "bespoke/io/image.h"
#include "bespoke/io/png.h"
#include "bespoke/io/safetensors.h"
#include "bespoke/io/wav.h"
#include "bespoke/model/sample_parts.h"
#include "options/space_options.h"

namespace bespoke {

namespace {

bool is_image(const torch::Tensor& samples) {
  return samples.dim() == 4 && (samples.size(1) == 1 || samples.size(1) == 3);
}

std::vector<std::string> write_images(const std::filesystem::path& folder,
                                      const ChosenSamples& chosen, const torch::Tensor& bytes,
                                      const std::map<std::string, std::string>& parameters) {
  const PngText text(parameters.begin(), parameters.end());
  GridOptions grid;
  grid.zoom = zoom_to_see(bytes);
  write_png(folder / "grid.png", image_grid(bytes, grid), text);
  for (int64_t i = 0; i < bytes.size(0); ++i) {
    const auto k = static_cast<size_t>(i);
    PngText own = text;
    own.emplace_back("sample", chosen.labels[k]);
    if (!chosen.prompts.empty()) own.emplace_back("prompt", chosen.prompts[k]);
    write_png(folder / (chosen.labels[k] + ".png"), bytes[i], own);
  }
  return {"grid.png",
          fmt::format("{}.png ... {}.png", chosen.labels.front(), chosen.labels.back())};
}

std::vector<std::string> write_sounds(const std::filesystem::path& folder,
                                      const ChosenSamples& chosen, const torch::Tensor& audio,
                                      const OpenModel& open) {
  const auto [least, most] = value_range(open, open.decoder != nullptr);
  const torch::Tensor unit = (audio - least) * (2 / (most - least)) - 1;
  for (int64_t i = 0; i < unit.size(0); ++i) {
    write_wav(folder / (chosen.labels[static_cast<size_t>(i)] + ".wav"), unit[i],
              static_cast<int>(open.card.sample_rate));
  }
  return {fmt::format("{}.wav ... {}.wav", chosen.labels.front(), chosen.labels.back())};
}

}  // namespace

std::vector<std::string> write_samples(const std::filesystem::path& folder, const OpenModel& open,
                                       const ChosenSamples& chosen, const SampleOutput& output) {
  TensorFile file{{{"noise", chosen.all_noise()}}, output.parameters};
  const auto& parts = open.card.parts;
  if (parts.empty()) file.tensors["samples"] = output.samples;
  const auto tensors = split_into_parts(output.samples, parts);
  for (size_t i = 0; i < parts.size(); ++i) file.tensors[parts[i].name] = tensors[i];
  for (const auto& [name, value] : chosen.conditions) file.tensors["condition." + name] = value;
  if (output.decoded.defined()) file.tensors["decoded"] = output.decoded;
  write_safetensors(folder / "samples.safetensors", file);
  std::vector<std::string> written = {"samples.safetensors"};

  const bool latent = open.decoder && !output.decoded.defined();
  if (latent) return written;
  const torch::Tensor shown =
      (output.decoded.defined() ? output.decoded : output.samples).detach().cpu();
  std::vector<std::string> more;
  if (open.card.sample_rate > 0) {
    more = write_sounds(folder, chosen, shown, open);
  } else if (is_image(shown)) {
    const auto [least, most] = value_range(open, output.decoded.defined());
    more = write_images(folder, chosen, to_bytes(shown, least, most), output.parameters);
  }
  written.insert(written.end(), more.begin(), more.end());
  return written;
}

}  // namespace bespoke
