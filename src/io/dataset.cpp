#include "bespoke/io/dataset.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <set>

#include "bespoke/base/error.h"
#include "bespoke/base/text.h"
#include "conform_sample.h"
#include "sample_source.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr int64_t kFilesPerTurn = 512;  // between two calls of on_progress

// A sample in memory, and what it was before anything was done to it.
struct LoadedSample {
  SampleValues sample;
  std::vector<int64_t> shape;
  bool clipped = false;
};

using LoadedSamples = std::vector<LoadedSample>;

// Calls work(i) on all threads. Of several errors the first by i is thrown, whichever came first.
void for_all(int64_t begin, int64_t end, const std::function<void(int64_t)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(end - begin));
  at::parallel_for(begin, end, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      try {
        work(i);
      } catch (...) {
        errors[static_cast<size_t>(i - begin)] = std::current_exception();
      }
    }
  });
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

int64_t count_of(const LoadedSamples& samples) { return static_cast<int64_t>(samples.size()); }

template <class Condition>
int64_t count_where(const LoadedSamples& samples, const Condition& condition) {
  return std::count_if(samples.begin(), samples.end(), condition);
}

// "1,203 of 50,000 images were resized to 32x32", if there are any.
void note(Dataset& dataset, int64_t count, const char* what, const std::string& done) {
  if (count == 0) return;
  dataset.notes.push_back(fmt::format("{} of {} {} {} {}", grouped(count),
                                      grouped(dataset.labels.size(0)), what,
                                      count == 1 ? "was" : "were", done));
}

SampleSource open_all(const std::vector<std::filesystem::path>& paths) {
  SampleSource all;
  for (const auto& path : paths) {
    const SampleSource source = open_sample_source(path);
    all.entries.insert(all.entries.end(), source.entries.begin(), source.entries.end());
    all.classes.insert(all.classes.end(), source.classes.begin(), source.classes.end());
    all.skipped.insert(all.skipped.end(), source.skipped.begin(), source.skipped.end());
  }
  if (all.entries.empty()) {
    std::vector<std::string> names;
    for (const auto& path : paths) names.push_back("'" + path.string() + "'");
    throw bad_input("no JPEG, PNG or WAV file in {}; check the path", fmt::join(names, ", "));
  }
  return all;
}

void note_skipped(Dataset& dataset, const std::vector<std::string>& skipped) {
  if (skipped.empty()) return;
  dataset.notes.push_back(fmt::format("{} {} not JPEG, PNG or WAV and skipped, such as '{}'",
                                      grouped(static_cast<int64_t>(skipped.size())),
                                      skipped.size() == 1 ? "file is" : "files are",
                                      skipped.front()));
}

Medium common_medium(const std::vector<SampleEntry>& entries) {
  const SampleEntry& first = entries.front();
  for (const SampleEntry& entry : entries) {
    if (entry.medium == first.medium) continue;
    const bool image = first.medium == Medium::image;
    throw bad_input("'{}' is an image and '{}' a sound; a dataset holds one kind",
                    (image ? first : entry).name, (image ? entry : first).name);
  }
  return first.medium;
}

void set_classes(Dataset& dataset, const SampleSource& source) {
  std::set<std::string, bool (*)(const std::string&, const std::string&)> names(
      source.classes.begin(), source.classes.end(), natural_less);
  for (const SampleEntry& entry : source.entries) names.insert(entry.class_name);
  dataset.classes.assign(names.begin(), names.end());
  std::map<std::string, int64_t> places;
  for (const std::string& name : dataset.classes) {
    places.emplace(name, static_cast<int64_t>(places.size()));
  }
  std::vector<int64_t> labels;
  for (const SampleEntry& entry : source.entries) labels.push_back(places.at(entry.class_name));
  dataset.labels = torch::tensor(labels, torch::kLong);
}

void check_sound(const std::string& name, LoadedSample& loaded) {
  torch::Tensor& values = loaded.sample.values;
  if (values.numel() == 0) return;
  const float loudest = values.abs().max().item<float>();
  if (!std::isfinite(loudest)) {
    throw bad_input("{}: holds values that are no finite numbers; make the file again", name);
  }
  loaded.clipped = loudest > 1;
  if (loaded.clipped) values = values.clamp(-1, 1);
}

LoadedSample load(const SampleEntry& entry, int64_t size) {
  LoadedSample loaded;
  loaded.sample = entry.load();
  torch::Tensor& values = loaded.sample.values;
  loaded.shape = values.sizes().vec();
  if (entry.medium == Medium::sound) {
    check_sound(entry.name, loaded);
  } else if (size > 0) {
    values = conform_image(values, size, size);  // now: photographs would not all fit into memory
  }
  return loaded;
}

LoadedSamples load_all(const std::vector<SampleEntry>& entries, const DatasetOptions& options) {
  LoadedSamples loaded(entries.size());
  const int64_t count = count_of(loaded);
  for (int64_t begin = 0; begin < count; begin += kFilesPerTurn) {
    const int64_t end = std::min(begin + kFilesPerTurn, count);
    for_all(begin, end, [&](int64_t i) {
      const auto place = static_cast<size_t>(i);
      loaded[place] = load(entries[place], options.size);
    });
    if (options.on_progress) {
      options.on_progress(static_cast<double>(end) / static_cast<double>(count));
    }
  }
  return loaded;
}

int64_t most_channels(const LoadedSamples& samples) {
  int64_t most = 1;
  for (const LoadedSample& sample : samples) most = std::max(most, sample.shape[0]);
  return most;
}

// All samples as one tensor, each let go once it is in there.
template <class Conform>
torch::Tensor join_samples(LoadedSamples& samples, std::vector<int64_t> shape,
                           torch::ScalarType type, const Conform& conform) {
  const int64_t count = count_of(samples);
  shape.insert(shape.begin(), count);
  torch::Tensor joined = torch::empty(shape, type);
  for_all(0, count, [&](int64_t i) {
    torch::Tensor& values = samples[static_cast<size_t>(i)].sample.values;
    joined[i].copy_(conform(values));
    values.reset();
  });
  return joined;
}

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
};

// The most common size; of two as common the smaller.
ImageSize most_common_size(const LoadedSamples& images) {
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  for (const LoadedSample& image : images) ++counts[{image.shape[1], image.shape[2]}];
  const auto most = std::max_element(
      counts.begin(), counts.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  return {most->first.first, most->first.second};
}

void join_images(LoadedSamples& images, const DatasetOptions& options, Dataset& dataset) {
  const ImageSize size =
      options.size > 0 ? ImageSize{options.size, options.size} : most_common_size(images);
  const int64_t channels = options.channels > 0 ? options.channels : most_channels(images);
  const auto conform = [&](const torch::Tensor& image) {
    return conform_colours(conform_image(image, size.height, size.width), channels);
  };
  dataset.samples =
      join_samples(images, {channels, size.height, size.width}, torch::kByte, conform);
  const auto resized = [&](const LoadedSample& image) {
    return image.shape[1] != size.height || image.shape[2] != size.width;
  };
  const auto recoloured = [&](const LoadedSample& image) { return image.shape[0] != channels; };
  note(dataset, count_where(images, resized), "images",
       fmt::format("resized to {}x{}", size.width, size.height));
  note(dataset, count_where(images, recoloured), "images",
       channels == 3 ? "grey and made RGB" : "in colour and made grey");
}

int common_rate(const LoadedSamples& sounds, const std::vector<SampleEntry>& entries) {
  const int rate = sounds.front().sample.sample_rate;
  for (size_t i = 0; i < sounds.size(); ++i) {
    if (sounds[i].sample.sample_rate == rate) continue;
    throw bad_input("'{}' has {} Hz and '{}' {} Hz; bring all sounds to one rate",
                    entries.front().name, rate, entries[i].name, sounds[i].sample.sample_rate);
  }
  return rate;
}

void check_channels(const LoadedSamples& sounds, int64_t channels,
                    const std::vector<SampleEntry>& entries) {
  for (size_t i = 0; i < sounds.size(); ++i) {
    if (can_conform_channels(sounds[i].shape[0], channels)) continue;
    throw bad_input("'{}' has {} channels where {} are needed; bring all sounds to one number",
                    entries[i].name, sounds[i].shape[0], channels);
  }
}

int64_t median_length(const LoadedSamples& sounds) {
  std::vector<int64_t> lengths;
  for (const LoadedSample& sound : sounds) lengths.push_back(sound.shape[1]);
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>((lengths.size() - 1) / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return *middle;
}

void note_sounds(const LoadedSamples& sounds, Dataset& dataset) {
  const int64_t channels = dataset.samples.size(1);
  const int64_t length = dataset.samples.size(2);
  const auto shorter = [&](const LoadedSample& sound) { return sound.shape[1] < length; };
  const auto longer = [&](const LoadedSample& sound) { return sound.shape[1] > length; };
  const auto remixed = [&](const LoadedSample& sound) { return sound.shape[0] != channels; };
  const auto clipped = [](const LoadedSample& sound) { return sound.clipped; };
  note(dataset, count_where(sounds, shorter), "sounds",
       fmt::format("padded with silence to {} samples", grouped(length)));
  note(dataset, count_where(sounds, longer), "sounds",
       fmt::format("cut to {} samples", grouped(length)));
  note(dataset, count_where(sounds, remixed), "sounds",
       fmt::format("brought to {} {}", channels, channels == 1 ? "channel" : "channels"));
  note(dataset, count_where(sounds, clipped), "sounds", "louder than 1 and clipped");
}

void join_sounds(LoadedSamples& sounds, const std::vector<SampleEntry>& entries,
                 const DatasetOptions& options, Dataset& dataset) {
  dataset.sample_rate = common_rate(sounds, entries);
  const int64_t channels = options.channels > 0 ? options.channels : most_channels(sounds);
  check_channels(sounds, channels, entries);
  const int64_t length = options.size > 0 ? options.size : median_length(sounds);
  if (length == 0) {
    throw bad_input("'{}' and at least half of the sounds are empty; give a length",
                    entries.front().name);
  }
  dataset.samples =
      join_samples(sounds, {channels, length}, torch::kFloat, [&](const torch::Tensor& sound) {
        return conform_channels(conform_length(sound, length), channels);
      });
  note_sounds(sounds, dataset);
}

void check_options(const DatasetOptions& options, Medium medium) {
  if (options.size < 0 || options.channels < 0) {
    throw usage_error("a dataset's size and channels are from 0, found {} and {}", options.size,
                      options.channels);
  }
  if (medium == Medium::image && options.channels != 0 && options.channels != 1 &&
      options.channels != 3) {
    throw usage_error("images have 1 or 3 channels, found {}", options.channels);
  }
}

}  // namespace

Dataset read_dataset(const std::vector<std::filesystem::path>& sources,
                     const DatasetOptions& options) {
  const SampleSource source = open_all(sources);
  const Medium medium = common_medium(source.entries);
  check_options(options, medium);
  Dataset dataset;
  set_classes(dataset, source);
  note_skipped(dataset, source.skipped);
  LoadedSamples loaded = load_all(source.entries, options);
  if (medium == Medium::image) {
    join_images(loaded, options, dataset);
  } else {
    join_sounds(loaded, source.entries, options, dataset);
  }
  return dataset;
}

}  // namespace bespoke
