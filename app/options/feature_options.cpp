#include "options/feature_options.h"

#include "runs/embedded_models.h"

namespace bespoke {

void add_feature_options(CLI::App& command, FeatureChoice& choice, const std::string& purpose) {
  // The embedded extractor goes by its name.
  const auto choose = [&choice](const std::string& text) {
    const auto embedded = embedded_features(text);
    choice.file = embedded.empty() ? text : embedded.string();
  };
  command.add_option_function<std::string>(
      "--features", choose,
      "TorchScript module, samples [batch, ...] -> features [batch, d]: " + purpose +
          "; cifar10-features is embedded");
  command.add_option("--features-range", choice.range,
                     "LO,HI: values it expects, which the model's range is mapped to and clipped; "
                     "default: samples as they are");
  command
      .add_option("--features-size", choice.size,
                  "height and width it expects, which images are resized to; 0: as they are")
      ->capture_default_str();
}

}  // namespace bespoke
