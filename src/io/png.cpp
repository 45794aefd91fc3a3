#include "bespoke/io/png.h"

#include <fmt/ranges.h>
#include <png.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bespoke/base/error.h"
#include "bespoke/base/file.h"
#include "bespoke/io/decode_limit.h"

namespace bespoke {

using namespace detail;

namespace {

constexpr size_t kMostTexts = 500;  // libpng drops those past its thousandth when it reads
constexpr size_t kLongestKeyword = 79;
constexpr size_t kLongestText = 4 << 20;     // libpng drops chunks above 8 MB when it reads
constexpr uint64_t kMostCompression = 1032;  // no zlib stream unpacks to more than this per byte

// What libpng works on. It leaves a failed call by longjmp, which skips destructors; so all that
// owns memory is held here, outside the calls, and freed as always.
struct Session {
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool writing = false;
  char message[128] = "";

  std::string bytes;  // the file: read from `position` on, or written at its end
  size_t position = 0;

  png_uint_32 width = 0;
  png_uint_32 height = 0;
  int channels = 0;
  uint64_t stored_bytes = 0;  // of the pixels as the file has them, unpacked
  std::vector<png_bytep> rows;
  std::vector<png_text> text;

  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (writing) {
      png_destroy_write_struct(&png, &info);
    } else {
      png_destroy_read_struct(&png, &info, nullptr);
    }
  }
};

// The callbacks below are called by C code: no exception may leave them.

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  Session& session = *static_cast<Session*>(png_get_error_ptr(png));
  std::snprintf(session.message, sizeof(session.message), "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep target, size_t size) {
  Session& session = *static_cast<Session*>(png_get_io_ptr(png));
  if (size > session.bytes.size() - session.position) png_error(png, "it ends too early");
  std::memcpy(target, session.bytes.data() + session.position, size);
  session.position += size;
}

void on_write(png_structp png, png_bytep source, size_t size) {
  Session& session = *static_cast<Session*>(png_get_io_ptr(png));
  bool done = false;
  try {
    session.bytes.append(reinterpret_cast<const char*>(source), size);
    done = true;
  } catch (const std::exception&) {
    // Told to libpng below: a longjmp out of the handler would leak the exception.
  }
  if (!done) png_error(png, "out of memory");
}

void on_flush(png_structp) {}

// A chunk may claim to be of any length, and libpng only warns of long ones.
png_voidp on_allocate(png_structp, png_alloc_size_t size) {
  constexpr uint64_t kItsOwn = 16 << 20;  // for its state and buffers
  return size > std::max(decode_limit(), kItsOwn) ? nullptr : std::malloc(size);
}
void on_release(png_structp, png_voidp memory) { std::free(memory); }

void open_for_reading(Session& session) {
  session.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &session, on_error, on_warning,
                                         nullptr, on_allocate, on_release);
  if (session.png != nullptr) session.info = png_create_info_struct(session.png);
  if (session.info == nullptr) throw std::bad_alloc();
  png_set_read_fn(session.png, &session, on_read);
}

void open_for_writing(Session& session) {
  session.writing = true;
  session.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &session, on_error, on_warning);
  if (session.png != nullptr) session.info = png_create_info_struct(session.png);
  if (session.info == nullptr) throw std::bad_alloc();
  png_set_write_fn(session.png, &session, on_write, on_flush);
}

// Runs one piece of libpng work; false if libpng gave up, with its message in the session. The work
// is left by longjmp, so it may hold nothing that has a destructor.
bool succeeds(Session& session, void (*work)(Session&)) {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  work(session);
  return true;
}

void read_header(Session& session) {
  png_set_crc_action(session.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_read_info(session.png, session.info);
  session.width = png_get_image_width(session.png, session.info);
  session.height = png_get_image_height(session.png, session.info);
  session.stored_bytes = static_cast<uint64_t>(session.height) *
                         static_cast<uint64_t>(png_get_rowbytes(session.png, session.info));
  png_set_expand(session.png);  // palettes to RGB, small depths to 8 bits, a colour key to alpha
  png_set_scale_16(session.png);
  png_set_interlace_handling(session.png);
  png_read_update_info(session.png, session.info);
  session.channels = png_get_channels(session.png, session.info);
}

void read_pixels(Session& session) {
  png_read_image(session.png, session.rows.data());
  png_read_end(session.png, session.info);
}

void write_all(Session& session) {
  const int colour = session.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB;
  png_set_IHDR(session.png, session.info, session.width, session.height, 8, colour,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_text(session.png, session.info, session.text.data(),
               static_cast<int>(session.text.size()));
  png_write_info(session.png, session.info);
  png_write_image(session.png, session.rows.data());
  png_write_end(session.png, session.info);
}

void point_rows_into(const torch::Tensor& pixels, Session& session) {
  const auto base = static_cast<png_bytep>(pixels.data_ptr());
  session.rows.resize(session.height);
  for (size_t i = 0; i < session.rows.size(); ++i) {
    session.rows[i] = base + i * session.width * static_cast<size_t>(session.channels);
  }
}

// [height, width, colours + alpha] as colours over white, rounded to nearest.
torch::Tensor over_white(const torch::Tensor& pixels) {
  const int64_t colours = pixels.size(2) - 1;
  const torch::Tensor colour = pixels.narrow(2, 0, colours).to(torch::kInt);
  const torch::Tensor alpha = pixels.narrow(2, colours, 1).to(torch::kInt);
  const torch::Tensor sum = colour * alpha + (255 - alpha) * 255;
  return torch::floor_divide(sum + 127, 255).to(torch::kByte);
}

// tEXt and zTXt are in Latin-1, whose characters are Unicode's first 256.
std::string utf8_from_latin1(const std::string& text) {
  std::string result;
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    if (code < 0x80) {
      result += character;
    } else {
      result += static_cast<char>(0xC0 | (code >> 6));
      result += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return result;
}

PngText text_of(const Session& session) {
  png_textp entries = nullptr;
  int count = 0;
  png_get_text(session.png, session.info, &entries, &count);
  PngText text;
  for (int i = 0; i < count; ++i) {
    const png_text& entry = entries[i];
    const bool unicode = entry.compression >= PNG_ITXT_COMPRESSION_NONE;
    const std::string value(entry.text, unicode ? entry.itxt_length : entry.text_length);
    text.emplace_back(utf8_from_latin1(entry.key), unicode ? value : utf8_from_latin1(value));
  }
  return text;
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_keyword(const std::string& key) {
  const bool printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c >= ' ' && c <= '~'; });
  const bool spaced = !key.empty() && key.front() != ' ' && key.back() != ' ' &&
                      key.find("  ") == std::string::npos;
  return printable && spaced && key.size() <= kLongestKeyword;
}

void check_text(const PngText& text) {
  if (text.size() > kMostTexts) {
    throw bad_input("a PNG holds at most {} texts, found {}; join some", kMostTexts, text.size());
  }
  for (const auto& [key, value] : text) {
    if (!is_keyword(key)) {
      throw bad_input("'{}' is no keyword of a PNG text; use 1 to {} printable ASCII characters",
                      key, kLongestKeyword);
    }
    if (value.find('\0') != std::string::npos || value.size() > kLongestText) {
      throw bad_input("the PNG text '{}' has {} bytes; use at most {} and none of them zero", key,
                      value.size(), kLongestText);
    }
  }
}

// libpng takes the texts by pointers it does not write through; `text` must outlive the session.
void point_text_into(const PngText& text, Session& session) {
  for (const auto& [key, value] : text) {
    png_text entry = {};
    entry.compression = is_ascii(value) ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
    entry.key = const_cast<png_charp>(key.c_str());
    entry.text = const_cast<png_charp>(value.c_str());
    entry.text_length = value.size();
    session.text.push_back(entry);
  }
}

void check_image(const torch::Tensor& image) {
  const bool fits = image.scalar_type() == torch::kByte && image.dim() == 3 &&
                    (image.size(0) == 1 || image.size(0) == 3);
  if (!fits) {
    throw bad_input("a PNG holds uint8 of shape [1 or 3, height, width], found {} of shape {}",
                    torch::toString(image.scalar_type()), image.sizes().vec());
  }
  const int64_t most = PNG_USER_WIDTH_MAX;
  if (image.numel() == 0 || image.size(1) > most || image.size(2) > most) {
    throw bad_input("a PNG has from 1 to {} pixels a side, found {} x {}; write smaller images",
                    most, image.size(2), image.size(1));
  }
}

Error broken(const std::string& source, const char* why) {
  return bad_input("{}: broken PNG ({}); make the file again", source, why);
}

}  // namespace

std::string encode_png(const torch::Tensor& image, const PngText& text) {
  check_image(image);
  check_text(text);
  const torch::Tensor pixels = image.detach().to(torch::kCPU).permute({1, 2, 0}).contiguous();
  Session session;
  session.height = static_cast<png_uint_32>(pixels.size(0));
  session.width = static_cast<png_uint_32>(pixels.size(1));
  session.channels = static_cast<int>(pixels.size(2));
  point_rows_into(pixels, session);
  point_text_into(text, session);
  open_for_writing(session);
  if (!succeeds(session, write_all)) {
    throw Error(ErrorKind::failed, fmt::format("cannot make a PNG: {}", session.message));
  }
  return std::move(session.bytes);
}

void write_png(const std::filesystem::path& path, const torch::Tensor& image, const PngText& text) {
  write_file_atomically(path, encode_png(image, text));
}

PngFile decode_png(std::string bytes, const std::string& source) {
  Session session;
  session.bytes = std::move(bytes);
  if (png_sig_cmp(reinterpret_cast<png_const_bytep>(session.bytes.data()), 0,
                  std::min<size_t>(session.bytes.size(), 8)) != 0) {
    throw bad_input("{}: not a PNG file; convert the image to PNG", source);
  }
  open_for_reading(session);
  if (!succeeds(session, read_header)) throw broken(source, session.message);
  if (session.stored_bytes / kMostCompression > session.bytes.size()) {
    throw broken(source, "its size does not fit its content");
  }
  check_decoded_size(
      uint64_t{session.height} * session.width * static_cast<uint64_t>(session.channels), source);
  torch::Tensor pixels =
      torch::empty({session.height, session.width, session.channels}, torch::kByte);
  point_rows_into(pixels, session);
  if (!succeeds(session, read_pixels)) throw broken(source, session.message);
  if (session.channels % 2 == 0) pixels = over_white(pixels);
  return {pixels.permute({2, 0, 1}).contiguous(), text_of(session)};
}

PngFile read_png(const std::filesystem::path& path) {
  return decode_png(read_file(path), path.string());
}

}  // namespace bespoke
