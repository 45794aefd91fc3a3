#include "bespoke/jobs/feature_choice.h"

#include <torch/torch.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/sha256.h"
#include "bespoke/base/text.h"

namespace bespoke {

using namespace detail;

namespace {

std::optional<std::pair<double, double>> parse_features_range(const std::string& text) {
  if (text.empty()) return {};
  const auto parts = split(text, ',');
  if (parts.size() != 2) {
    throw usage_error("--features-range is LO,HI such as 0,1 or -1,1 or 0,255, found '{}'", text);
  }
  const double least = parse_number(parts[0], "--features-range LO");
  const double most = parse_number(parts[1], "--features-range HI");
  if (!(least < most)) throw usage_error("--features-range LO,HI must increase, found '{}'", text);
  return std::make_pair(least, most);
}

}  // namespace

void FeatureChoice::validate() const {
  if (file.empty() && (!range.empty() || size != 0)) {
    throw usage_error("--features-range and --features-size go with --features");
  }
  if (size < 0) throw usage_error("--features-size must not be negative, found {}", size);
  parse_features_range(range);
}

std::vector<int64_t> seen_shape(const OpenModel& open) {
  return open.decoder ? open.decoder->card().sample_shape : open.card.sample_shape;
}

OpenFeatures open_features(const FeatureChoice& choice, const OpenModel& open) {
  const ValueRange values = value_range(open, open.decoder != nullptr);
  FeatureOptions prepared;
  prepared.device = open.device;
  prepared.least = values.least;
  prepared.most = values.most;
  prepared.range = parse_features_range(choice.range);
  prepared.size = choice.size;
  OpenFeatures features;
  const std::filesystem::path path = choice.file;
  features.extractor = std::make_shared<FeatureExtractor>(path, prepared);
  features.name = path.filename().string();
  features.dimension = features.extractor->dimension(seen_shape(open));
  features.identity = {{"sha256", sha256(read_file(path))},
                       {"values", {values.least, values.most}},
                       {"range", choice.range},
                       {"size", choice.size}};
  return features;
}

}  // namespace bespoke
