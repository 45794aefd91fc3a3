#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace bespoke {

// The keywords and texts of a PNG, in UTF-8 and the file's order. A keyword is 1 to 79 printable
// ASCII characters, without spaces at its ends or two in a row.
using PngText = std::vector<std::pair<std::string, std::string>>;

// What a PNG holds. All functions need libpng: in a build without it they throw an error that names
// the package to install.
struct PngFile {
  torch::Tensor image;  // uint8 [1 or 3, height, width]
  PngText text;         // its keywords
};

// The bytes of a PNG of a uint8 image of shape [1 or 3, height, width], grey or RGB. A text goes
// into a tEXt chunk if it is ASCII and an iTXt chunk if not. The same input gives the same bytes.
std::string encode_png(const torch::Tensor& image, const PngText& text = {});

// Writes the same to a file.
void write_png(const std::filesystem::path& path, const torch::Tensor& image,
               const PngText& text = {});

// Reads any PNG as 8-bit grey or RGB: palettes become RGB, 16 bits are rounded to 8, and what is
// transparent is laid over white, as a viewer shows it. Values are as stored: gamma and colour
// profiles are not applied. A file that is broken anywhere is bad input.
PngFile read_png(const std::filesystem::path& path);

// The same for a file in memory; `source` names it in messages.
PngFile decode_png(std::string bytes, const std::string& source);

}  // namespace bespoke
