#include "teachers/latent_space.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "bespoke/model/network.h"
#include "teachers/export.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kDescription[] = "autoencoder.json";
constexpr char kEncoder[] = "encoder.pt", kDecoder[] = "decoder.pt";
constexpr char kFormat[] = "bespoke-autoencoder";
constexpr int64_t kBatch = 256, kValues = 1 << 20;  // at most so many examples and values at once

// All of the examples through `encode`, in batches.
template <class Encode>
torch::Tensor encode_all(const Examples& examples, int64_t count, const Encode& encode) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parts;
  const int64_t size = examples.slice(0, 1).samples.numel();
  const int64_t step = std::clamp(kValues / size, int64_t{1}, kBatch);
  for (int64_t begin = 0; begin < count; begin += step) {
    const auto batch = examples.slice(begin, std::min(count, begin + step));
    parts.push_back(encode(batch.samples).to(torch::kCPU, torch::kFloat));
  }
  return torch::cat(parts);
}

std::vector<int64_t> shape_from(const nlohmann::json& list, const std::string& where) {
  constexpr int64_t kLargest = 1 << 20;
  require(list.is_array() && (list.size() == 2 || list.size() == 3), where,
          "must be [channels, height, width] or, of sounds, [channels, length]");
  std::vector<int64_t> shape;
  for (const auto& size : list) shape.push_back(whole_number(size, where, 1, kLargest));
  return shape;
}

// The root mean square of what is not silent.
double level_of(const Examples& examples, int64_t count) {
  const torch::Tensor sounds = examples.slice(0, count).samples;
  const double heard = sounds.ne(0).sum().item<double>();
  return heard > 0 ? std::sqrt(sounds.square().sum().item<double>() / heard) : 0;
}

}  // namespace

void write_latent_space(Autoencoder& network, const NetworkShape& shape, const Examples& examples,
                        const SoundFacts& sound, const std::filesystem::path& folder) {
  constexpr int64_t kMeasured = 4096;
  const int64_t count = std::min(kMeasured, examples.count());
  const torch::Tensor codes = encode_all(
      examples, count, [&](const torch::Tensor& x) { return network.encoder().forward(x); });
  export_autoencoder(network, shape, folder / kEncoder, folder / kDecoder);
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"sample_shape", shape.sample},
                                 {"latent_shape", network.latent_shape()},
                                 {"scale", 1 / codes.std().item<double>()},
                                 {"shift", codes.mean().item<double>()}};
  if (sound.sample_rate > 0) {
    json["sample_rate"] = sound.sample_rate;
    json["margin"] = sound.margin;
    json["level"] = level_of(examples, count);
  }
  write_file_atomically(folder / kDescription, json_text(json, 2) + "\n");
}

LatentSpace read_latent_space(const std::filesystem::path& folder) {
  const auto path = folder / kDescription;
  const std::string source = path.string();
  if (!is_file(path)) {
    throw bad_input("{} is not there; give the folder of a 'bespoke-train autoencoder'", source);
  }
  return read_checked(source, [&] {
    const nlohmann::json json = parse_json(read_text_file(path), source, "it is written by train");
    check_keys(json, {"format", "sample_shape", "latent_shape", "scale", "shift"},
               {"sample_rate", "margin", "level"}, source);
    require(json["format"] == kFormat, source, "is not of an autoencoder");
    LatentSpace space;
    space.encoder.weights = folder / kEncoder;
    space.shape = shape_from(json["latent_shape"], source + ": latent_shape");
    space.decoder.weights = folder / kDecoder;
    space.decoder.sample_shape = shape_from(json["sample_shape"], source + ": sample_shape");
    space.decoder.scale = number(json["scale"], source + ": scale");
    require(space.decoder.scale > 0, source + ": scale", "must be above 0");
    space.decoder.shift = number(json["shift"], source + ": shift");
    if (!json.contains("sample_rate")) return space;
    space.sample_rate = whole_number(json["sample_rate"], source + ": sample_rate", 1, 10000000);
    check_keys(json,
               {"format", "sample_shape", "latent_shape", "scale", "shift", "sample_rate", "margin",
                "level"},
               {}, source);
    space.encoder.margin = whole_number(json["margin"], source + ": margin", 0, 1 << 20);
    space.encoder.level = number(json["level"], source + ": level");
    return space;
  });
}

torch::Tensor encode_samples(const LatentSpace& space, const Examples& examples,
                             torch::Device device) {
  const auto& expected = space.decoder.sample_shape;
  if (examples.shape().sample != expected) {
    throw bad_input("the data is of {}, the autoencoder of {}; give --size {} or train another",
                    fmt::join(examples.shape().sample, "x"), fmt::join(expected, "x"),
                    expected.back());
  }
  const NetworkPtr encoder = load_network(space.encoder.weights, {device, torch::kFloat});
  const torch::Tensor codes = encode_all(examples, examples.count(), [&](const torch::Tensor& x) {
    return call_network(*encoder, x);
  });
  return (codes - space.decoder.shift) * space.decoder.scale;
}

}  // namespace bespoke
