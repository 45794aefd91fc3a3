#include "teachers/export.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/script.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bespoke/base/file.h"
#include "bespoke/base/json_checks.h"

namespace bespoke {

using namespace detail;

namespace {

using Tensors = std::vector<torch::Tensor>;

// Holds the same tensors as the network, so that the recording finds them as attributes.
torch::jit::Module holder_of(const torch::nn::Module& network) {
  torch::jit::Module holder("Network");
  const auto attribute = [](std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
  };
  for (const auto& item : network.named_parameters())
    holder.register_parameter(attribute(item.key()), item.value(), false);
  for (const auto& item : network.named_buffers())
    holder.register_buffer(attribute(item.key()), item.value());
  return holder;
}

torch::jit::Module record(const torch::nn::Module& network, const Tensors& examples,
                          const std::vector<std::string>& names,
                          const std::function<torch::Tensor(const Tensors&)>& forward) {
  torch::NoGradGuard no_grad;
  torch::jit::Module holder = holder_of(network);
  const auto call = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    Tensors arguments;
    for (const auto& input : inputs) arguments.push_back(input.toTensor());
    return {forward(arguments)};
  };
  const auto traced = torch::jit::tracer::trace(
      {examples.begin(), examples.end()}, call, [](const torch::Tensor&) { return std::string(); },
      true, false, &holder, names);
  const auto function = holder._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*holder.type()->name(), "forward"), traced.first->graph);
  holder.type()->addMethod(function);
  return holder;
}

void save_in_half(const torch::jit::Module& recorded, const std::filesystem::path& path) {
  torch::jit::Module module = recorded.deepcopy();  // the recorded one shares the network's weights
  module.eval();
  module.to(torch::kHalf);
  std::ostringstream stream;
  module.save(stream);
  write_file_atomically(path, stream.str());
}

nlohmann::ordered_json first_condition(const NetworkShape& shape,
                                       const std::vector<std::string>& vocabulary) {
  if (shape.has_captions()) {
    return {{"name", "prompt"},
            {"shape", {shape.tokens}},
            {"dtype", "int64"},
            {"null", "zeros"},
            {"vocabulary", vocabulary}};
  }
  return {{"name", "y"}, {"classes", shape.classes}, {"null", shape.null()}};
}

nlohmann::ordered_json teacher_conditions(const NetworkShape& shape,
                                          const std::vector<std::string>& vocabulary) {
  auto list = nlohmann::ordered_json::array();
  list.push_back(first_condition(shape, vocabulary));
  if (shape.fills_gaps()) {
    list.push_back({{"name", kVisible}, {"shape", shape.sample}, {"null", "zeros"}});
    list.push_back({{"name", kKnown}, {"shape", {1, shape.sample[1]}}, {"null", "zeros"}});
  }
  return list;
}

torch::Tensor example_batch(const std::vector<int64_t>& sample) {
  std::vector<int64_t> sizes = {2};
  sizes.insert(sizes.end(), sample.begin(), sample.end());
  return torch::zeros(sizes);
}

}  // namespace

void export_teacher(TeacherNetwork& network, const NetworkShape& shape,
                    const std::filesystem::path& path) {
  const torch::Tensor y = shape.has_captions() ? torch::zeros({2, shape.tokens}, torch::kLong)
                                               : torch::zeros({2}, torch::kLong);
  Tensors examples = {example_batch(shape.sample), torch::full({2}, 0.5), y};
  if (shape.fills_gaps()) {
    examples.push_back(example_batch(shape.sample));
    examples.push_back(example_batch({1, shape.sample[1]}));
    save_in_half(
        record(network, examples, {"x", "t", "y", kVisible, kKnown},
               [&](const Tensors& in) {
                 return network.forward(torch::cat({in[0], in[3], in[4]}, 1), in[1], in[2]);
               }),
        path);
    return;
  }
  save_in_half(record(network, examples, {"x", "t", "y"},
                      [&](const Tensors& in) { return network.forward(in[0], in[1], in[2]); }),
               path);
}

void export_features(Classifier& network, const NetworkShape& shape,
                     const std::filesystem::path& path) {
  save_in_half(record(network, {example_batch(shape.sample)}, {"x"},
                      [&](const Tensors& in) { return network.features(in[0]); }),
               path);
}

void export_classifier(Classifier& network, const NetworkShape& shape,
                       const std::filesystem::path& path) {
  save_in_half(record(network, {example_batch(shape.sample)}, {"x"},
                      [&](const Tensors& in) { return network.forward(in[0]); }),
               path);
}

void export_autoencoder(Autoencoder& network, const NetworkShape& shape,
                        const std::filesystem::path& encoder,
                        const std::filesystem::path& decoder) {
  save_in_half(record(network.encoder(), {example_batch(shape.sample)}, {"x"},
                      [&](const Tensors& in) { return network.encoder().forward(in[0]); }),
               encoder);
  save_in_half(record(network.decoder(), {example_batch(network.latent_shape())}, {"z"},
                      [&](const Tensors& in) { return network.decoder().forward(in[0]); }),
               decoder);
}

std::string teacher_card_text(const ModelCard& card, const NetworkShape& shape,
                              const std::vector<std::string>& vocabulary) {
  nlohmann::ordered_json json = {{"format", card.format},
                                 {"weights", card.weights.filename().string()},
                                 {"sample_shape", shape.sample},
                                 {"prediction", to_string(card.prediction)},
                                 {"schedule", card.schedule->describe()},
                                 {"time", {{"convention", "noise-to-data"}}},
                                 {"conditions", teacher_conditions(shape, vocabulary)}};
  if (!card.name.empty()) json["name"] = card.name;
  if (card.input_scaling == InputScaling::edm) json["input_scaling"] = "edm";
  if (!card.licence.empty()) json["licence"] = card.licence;
  if (!card.source.empty()) json["source"] = card.source;
  if (card.sample_rate > 0) json["sample_rate"] = card.sample_rate;
  if (card.decoder) {
    json["value_range"] = {card.least, card.most};
    json["decoder"] = {{"weights", card.decoder->weights.filename().string()},
                       {"sample_shape", card.decoder->sample_shape},
                       {"scale", card.decoder->scale},
                       {"shift", card.decoder->shift}};
  }
  if (card.encoder) {
    json["encoder"] = {{"weights", card.encoder->weights.filename().string()},
                       {"margin", card.encoder->margin},
                       {"level", card.encoder->level}};
  }
  return json_text(json, 2) + "\n";
}

}  // namespace bespoke
