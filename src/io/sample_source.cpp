#include "sample_source.h"

#include <torch/torch.h>

#include <algorithm>
#include <memory>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/base/text.h"
#include "bespoke/io/jpeg.h"
#include "bespoke/io/png.h"
#include "bespoke/io/wav.h"
#include "bespoke/io/zip.h"
#include "dataset_file.h"

namespace bespoke {

using namespace detail;

namespace {

namespace fs = std::filesystem;

std::string extension_of(const fs::path& path) { return lower_case(path.extension().string()); }

bool is_image_name(const std::string& path) {
  const std::string extension = extension_of(path);
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

bool is_sound_name(const std::string& path) { return extension_of(path) == ".wav"; }

// What systems leave beside one's files; nobody wants to hear of it.
bool is_litter(const std::string& path) {
  for (const std::string& part : split(path, '/')) {
    if (part.rfind('.', 0) == 0 || part == "__MACOSX" || lower_case(part) == "thumbs.db") {
      return true;
    }
  }
  return false;
}

std::string class_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().filename().string();
  return folder.empty() ? kNoClass : folder;
}

// By content: many a file called .jpg is a PNG.
torch::Tensor decode_image(std::string bytes, const std::string& name) {
  if (bytes.rfind("\x89PNG", 0) == 0) return decode_png(std::move(bytes), name).image;
  if (bytes.rfind("\xff\xd8", 0) == 0) return decode_jpeg(bytes, name);
  throw bad_input("{}: neither JPEG nor PNG, or broken; convert the image or remove the file",
                  name);
}

SampleValues decode_sample(Medium medium, std::string bytes, const std::string& name) {
  if (medium == Medium::image) return {decode_image(std::move(bytes), name), 0};
  const WavFile file = decode_wav(std::move(bytes), name);
  return {file.audio, file.sample_rate};
}

// A file of a folder or an archive.
struct FoundFile {
  std::string path;  // inside its source
  std::string name;  // for messages
  std::function<std::string()> read;
};

SampleSource source_of_files(std::vector<FoundFile> files) {
  std::stable_sort(files.begin(), files.end(), [](const FoundFile& left, const FoundFile& right) {
    return natural_less(left.path, right.path);
  });
  SampleSource source;
  for (const FoundFile& file : files) {
    if (is_litter(file.path)) continue;
    if (!is_image_name(file.path) && !is_sound_name(file.path)) {
      source.skipped.push_back(file.name);
      continue;
    }
    const Medium medium = is_image_name(file.path) ? Medium::image : Medium::sound;
    source.entries.push_back(
        {file.name, class_of(file.path), medium, [medium, read = file.read, name = file.name] {
           return decode_sample(medium, read(), name);
         }});
  }
  return source;
}

SampleSource open_folder(const fs::path& folder) {
  std::vector<FoundFile> files;
  for (const std::string& path : list_files(folder)) {
    const fs::path file = folder / path;
    files.push_back({path, file.string(), [file] { return read_file(file); }});
  }
  return source_of_files(std::move(files));
}

SampleSource open_zip(const fs::path& path) {
  const auto archive = std::make_shared<ZipArchive>(path);
  std::vector<FoundFile> files;
  for (size_t i = 0; i < archive->names().size(); ++i) {
    files.push_back(
        {archive->names()[i], archive->describe(i), [archive, i] { return archive->read(i); }});
  }
  return source_of_files(std::move(files));
}

}  // namespace

SampleSource open_sample_source(const fs::path& path) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) return open_folder(path);
  if (!is_file(path)) {
    throw bad_input("'{}' is neither a folder nor a file; check the path", path.string());
  }
  const std::string extension = extension_of(path);
  if (extension == ".zip") return open_zip(path);
  if (extension == ".safetensors") return open_dataset_file(path);
  throw bad_input("'{}' is no dataset; give a folder, a .zip or a .safetensors file",
                  path.string());
}

}  // namespace bespoke
