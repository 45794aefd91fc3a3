#include <fmt/ranges.h>
#include <torch/torch.h>

#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/model/clipped_model.h"
#include "bespoke/model/compiled_package.h"
#include "bespoke/model/fields.h"
#include "bespoke/model/network.h"
#include "bespoke/model/sample_parts.h"
#include "bespoke/tensor/combine.h"
#include "bespoke/tensor/transfer.h"
#include "loaded_network.h"
#include "script_program.h"

namespace bespoke {

using namespace detail;

namespace {

// One value for a whole batch stays one.
torch::Tensor rounded(const torch::Tensor& times) {
  const bool uniform = times.size(0) > 1 && times.stride(0) == 0;
  return uniform ? times.slice(0, 0, 1).round().expand_as(times) : times.round();
}

class CardModel : public Model {
 public:
  CardModel(NetworkPtr network, const ModelCard& card) : card_(card), network_(std::move(network)) {
    std::vector<std::string> given;
    for (const auto& part : card.parts) given.push_back(part.name);
    if (given.empty()) given = {"x"};
    if (takes_time()) given.emplace_back("the time");
    for (const auto& condition : card.conditions) given.push_back(condition.name);
    network_->check_arguments(given.size(), fmt::format("{}", fmt::join(given, ", ")));
  }

  torch::Tensor predict(const torch::Tensor& x, const torch::Tensor& t,
                        const Conditions& conditions) const override {
    const auto& options = network_->options();
    const torch::Tensor sent_x = as_called(input(x, t)).to(options.device, options.dtype);
    std::vector<torch::Tensor> arguments = {sent_x};
    if (!card_.parts.empty()) arguments = split_into_parts(sent_x, card_.parts);
    if (takes_time()) arguments.push_back(time_argument(t));
    for (const auto& condition : card_.conditions) {
      arguments.push_back(condition_argument(condition, conditions, x.size(0)));
    }
    if (!card_.parts.empty()) return network_->call(arguments, card_.parts);
    return as_ours(network_->call(arguments, returned_shape(card_)));
  }

  Prediction prediction() const override { return card_.prediction; }
  bool can_be_recorded() const override { return network_->records_calls(); }
  SchedulePtr schedule() const override { return card_.schedule; }
  std::vector<int64_t> sample_shape() const override { return card_.sample_shape; }
  torch::ScalarType dtype() const override { return network_->options().dtype; }

 private:
  bool takes_time() const { return card_.time.convention != TimeConvention::none; }

  // Channels stand behind the batch here, and at the end where the card says so.
  torch::Tensor as_called(const torch::Tensor& x) const {
    return card_.channels_last ? x.movedim(1, -1).contiguous() : x;
  }

  // The prediction alone, whatever comes with it.
  torch::Tensor as_ours(const torch::Tensor& output) const {
    const torch::Tensor ours = card_.channels_last ? output.movedim(-1, 1) : output;
    if (card_.extra_channels == 0) return ours.contiguous();
    return ours.narrow(1, 0, card_.sample_shape.front()).contiguous();
  }

  torch::Tensor input(const torch::Tensor& x, const torch::Tensor& t) const {
    if (card_.input_scaling == InputScaling::none) return x;
    const auto scale = time_function(t, [this](double time) {
      return network_input_scale(card_.input_scaling, *card_.schedule, time);
    });
    return x * per_sample(copied_to(scale, x.device(), x.scalar_type()), x.dim());
  }

  torch::Tensor time_argument(const torch::Tensor& t) const {
    const auto& options = network_->options();
    const torch::Tensor times = time_function(
        t, [this](double time) { return network_time(card_.time, *card_.schedule, time); });
    if (card_.time.integer) return copied_to(rounded(times), options.device, torch::kLong);
    return copied_to(times, options.device, options.dtype);
  }

  torch::Tensor condition_argument(const ConditionCard& condition, const Conditions& given,
                                   int64_t batch) const {
    const auto& options = network_->options();
    const auto entry = given.find(condition.name);
    if (entry == given.end()) {
      if (condition.null < 0) {
        throw bad_input("the model needs the condition '{}', none was given", condition.name);
      }
      return torch::full({batch}, condition.null,
                         torch::TensorOptions().device(options.device).dtype(torch::kLong));
    }
    const bool is_integer = !condition.is_tensor() || condition.integer;
    return copied_to(entry->second, options.device, is_integer ? torch::kLong : options.dtype);
  }

  ModelCard card_;
  NetworkPtr network_;
};

NetworkPtr load_script_network(const std::filesystem::path& path, const std::string& sha256,
                               const NetworkOptions& options) {
  return make_network(load_script(path, sha256, options), path.string(), options);
}

}  // namespace

NetworkPtr load_network(const ModelCard& card, const NetworkOptions& options) {
  if (card.format == kScriptFormat) {
    return load_script_network(card.weights, card.weights_sha256, options);
  }
  if (card.format == kPackageFormat) {
    return make_network(load_package(card.weights, card.weights_sha256, options),
                        card.weights.string(), options);
  }
  throw bad_input("model format '{}' is not known; the formats are: {}, {}", card.format,
                  kScriptFormat, kPackageFormat);
}

NetworkPtr load_network(const std::filesystem::path& file, const NetworkOptions& options) {
  return load_script_network(file, "", options);
}

torch::Tensor call_network(const LoadedNetwork& network, const torch::Tensor& x) {
  return network.call(x.to(network.options().device, network.options().dtype));
}

ModelPtr network_model(NetworkPtr network, const ModelCard& card) {
  const auto model = std::make_shared<CardModel>(std::move(network), card);
  return card.clip ? clipped_model(model, *card.clip) : model;
}

ModelPtr load_model(const ModelCard& card, const NetworkOptions& options) {
  return network_model(load_network(card, options), card);
}

int64_t parameter_count(const LoadedNetwork& network) { return network.parameter_count(); }

bool has_gradients(const LoadedNetwork& network) { return network.has_gradients(); }

NetworkHabits network_habits(const LoadedNetwork& network) { return network.habits(); }

torch::Device network_device(const LoadedNetwork& network) { return network.options().device; }

Decoder::Decoder(const DecoderCard& card, const NetworkOptions& options)
    : card_(card), module_(load_script_network(card.weights, card.weights_sha256, options)) {}

torch::Tensor Decoder::decode(const torch::Tensor& latents) const {
  const auto& options = module_->options();
  const auto input = (latents / card_.scale + card_.shift).to(options.device, options.dtype);
  const auto output = module_->call({input}, card_.sample_shape);
  return output.element_size() < 4 ? output.to(torch::kFloat) : output;
}

Encoder::Encoder(const ModelCard& card, const NetworkOptions& options)
    : latent_shape_(card.sample_shape),
      scale_(card.decoder->scale),
      shift_(card.decoder->shift),
      module_(load_script_network(card.encoder->weights, card.encoder->weights_sha256, options)) {}

torch::Tensor Encoder::encode(const torch::Tensor& sounds) const {
  const torch::NoGradGuard no_grad;
  const auto& options = module_->options();
  const auto codes = module_->call({sounds.to(options.device, options.dtype)}, latent_shape_);
  return ((codes.element_size() < 4 ? codes.to(torch::kFloat) : codes) - shift_) * scale_;
}

}  // namespace bespoke
