#include "teachers/latent_space.h"

#include <torch/script.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"
#include "teachers/export.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr char kDescription[] = "autoencoder.json";
constexpr char kFormat[] = "bespoke-autoencoder";
constexpr int64_t kBatch = 256;

// All of the examples through `encode`, in batches.
template <class Encode>
torch::Tensor encode_all(const Examples& examples, int64_t count, const Encode& encode) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parts;
  for (int64_t begin = 0; begin < count; begin += kBatch) {
    const auto batch = examples.slice(begin, std::min(count, begin + kBatch));
    parts.push_back(encode(batch.samples).to(torch::kCPU, torch::kFloat));
  }
  return torch::cat(parts);
}

std::vector<int64_t> shape_from(const nlohmann::json& list, const std::string& where) {
  std::vector<int64_t> shape;
  for (const double size : number_list(list, where, 3)) shape.push_back(static_cast<int64_t>(size));
  return shape;
}

}  // namespace

LatentSpace write_latent_space(Autoencoder& network, const NetworkShape& shape,
                               const Examples& examples, const std::filesystem::path& folder) {
  constexpr int64_t kMeasured = 4096;
  const torch::Tensor codes =
      encode_all(examples, std::min(kMeasured, examples.count()),
                 [&](const torch::Tensor& x) { return network.encoder().forward(x); });
  LatentSpace space;
  space.encoder = folder / "encoder.pt";
  space.shape = network.latent_shape();
  space.decoder.weights = folder / "decoder.pt";
  space.decoder.sample_shape = shape.sample;
  space.decoder.shift = codes.mean().item<double>();
  space.decoder.scale = 1 / codes.std().item<double>();
  export_autoencoder(network, shape, space.encoder, space.decoder.weights);
  const nlohmann::ordered_json json = {{"format", kFormat},
                                       {"sample_shape", shape.sample},
                                       {"latent_shape", space.shape},
                                       {"scale", space.decoder.scale},
                                       {"shift", space.decoder.shift}};
  write_file_atomically(folder / kDescription, json_text(json, 2) + "\n");
  return space;
}

LatentSpace read_latent_space(const std::filesystem::path& folder) {
  const auto path = folder / kDescription;
  const std::string source = path.string();
  if (!is_file(path)) {
    throw bad_input("{} is not there; give the folder of a 'bespoke train --network autoencoder'",
                    source);
  }
  return read_checked(source, [&] {
    const nlohmann::json json = parse_json(read_text_file(path), source, "it is written by train");
    check_keys(json, {"format", "sample_shape", "latent_shape", "scale", "shift"}, {}, source);
    require(json["format"] == kFormat, source, "is not of an autoencoder");
    LatentSpace space;
    space.encoder = folder / "encoder.pt";
    space.shape = shape_from(json["latent_shape"], source + ": latent_shape");
    space.decoder.weights = folder / "decoder.pt";
    space.decoder.sample_shape = shape_from(json["sample_shape"], source + ": sample_shape");
    space.decoder.scale = number(json["scale"], source + ": scale");
    space.decoder.shift = number(json["shift"], source + ": shift");
    return space;
  });
}

torch::Tensor encode_samples(const LatentSpace& space, const Examples& examples,
                             torch::Device device) {
  if (examples.shape().sample != space.decoder.sample_shape) {
    throw bad_input("the samples and what the autoencoder was trained on differ in shape");
  }
  torch::jit::Module encoder = torch::jit::load(space.encoder.string(), device);
  encoder.to(torch::kFloat);
  const torch::Tensor codes = encode_all(examples, examples.count(), [&](const torch::Tensor& x) {
    return encoder.forward({x}).toTensor();
  });
  return (codes - space.decoder.shift) * space.decoder.scale;
}

}  // namespace bespoke
