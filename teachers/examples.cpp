#include "teachers/examples.h"

#include <algorithm>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/text.h"
#include "bespoke/model/vocabulary.h"

namespace bespoke {

using namespace detail;

namespace {

torch::Tensor in_range(const torch::Tensor& samples) {
  if (samples.scalar_type() != torch::kByte) return samples;
  return samples.to(torch::kFloat).mul_(1 / 127.5).sub_(1);
}

torch::Tensor flip_half(const torch::Tensor& images) {
  const torch::Tensor chosen = torch::rand({images.size(0), 1, 1, 1}, images.options()) < 0.5;
  return torch::where(chosen, images.flip({3}), images);
}

// One shift for all of a batch: as good over many batches, and a slice instead of a gather.
torch::Tensor shift_all(const torch::Tensor& images, int64_t most) {
  const torch::Tensor padded = torch::constant_pad_nd(images, {most, most, most, most});
  const torch::Tensor by = torch::randint(2 * most + 1, {2}, torch::kLong);
  return padded.narrow(2, by[0].item<int64_t>(), images.size(2))
      .narrow(3, by[1].item<int64_t>(), images.size(3));
}

std::vector<std::string> lines_of(const std::string& text) {
  auto lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace

Captions read_captions(const std::filesystem::path& path, int64_t samples) {
  Captions captions;
  const auto texts = lines_of(read_text_file(path));
  const auto count = static_cast<int64_t>(texts.size());
  if (count != samples) {
    throw bad_input("{} has {} captions for {} samples; give one per line, in their order",
                    path.string(), count, samples);
  }
  int64_t longest = 1;
  for (const auto& text : texts) {
    longest = std::max(longest, static_cast<int64_t>(caption_words(text).size()));
  }
  const Vocabulary vocabulary = Vocabulary::of(texts);
  captions.words = vocabulary.words();
  std::vector<int64_t> tokens;
  for (const auto& text : texts) {
    const auto row = vocabulary.tokens(text, longest);
    tokens.insert(tokens.end(), row.begin(), row.end());
  }
  captions.tokens = torch::tensor(tokens, torch::kLong).reshape({count, longest});
  return captions;
}

Examples::Examples(const Dataset& dataset, torch::Device device,
                   const std::optional<Captions>& captions)
    : samples_(dataset.samples.to(device)),
      labels_((captions ? captions->tokens : dataset.labels).to(device)) {
  if (captions) {
    words_ = static_cast<int64_t>(captions->words.size());
  } else {
    classes_ = static_cast<int64_t>(dataset.classes.size());
  }
}

NetworkShape Examples::shape() const {
  NetworkShape shape{samples_.sizes().slice(1).vec(), classes_, words_, 0};
  if (shape.has_captions()) shape.tokens = labels_.size(1);
  if (gaps_) shape.context = shape.sample[0] + 1;
  return shape;
}

Batch Examples::draw(int64_t batch, const AugmentOptions& augment) const {
  const torch::Tensor chosen = torch::randint(count(), {batch}, labels_.options());
  torch::Tensor samples = in_range(samples_.index_select(0, chosen));
  if (augment.flip) samples = flip_half(samples);
  if (augment.shift > 0) samples = shift_all(samples, augment.shift);
  return {samples, labels_.index_select(0, chosen)};
}

Batch Examples::slice(int64_t begin, int64_t end) const {
  return {in_range(samples_.slice(0, begin, end)), labels_.slice(0, begin, end)};
}

}  // namespace bespoke
