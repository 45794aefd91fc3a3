#pragma once

#include <torch/types.h>

#include <string>

namespace bespoke {

// Reads a JPEG file in memory as uint8 [1 or 3, height, width], grey or RGB (CMYK becomes RGB),
// through libjpeg; `source` names the file in messages. The pixels lie as stored: Exif's turns and
// colour profiles are not applied. A file that is broken or cut off is bad input, even where
// decoders customarily fill the rest with grey. In a build without libjpeg this throws an error
// that names the package to install.
torch::Tensor decode_jpeg(const std::string& bytes, const std::string& source);

}  // namespace bespoke
